// SPDX-License-Identifier: Apache-2.0
// Request JSON to prompt: a request is refused with a message, or its prompt holds only known ids and the
// same control tokens whatever the texts say.
#include "base/check.h"
#include "chat/prompt_encoder.h"
#include "chat/request_parser.h"
#include "tests/support/fuzz_driver.h"
#include "tests/support/real_tokenizer.h"
#include "text/utf8.h"

namespace inkstone {
namespace {

using test_support::mini_special_tokens;
using test_support::mini_tokenizer;

void check_json(std::string_view text) {
  const auto value = chat::parse_json(text, "input");
  if (!value) return;
  const std::string canonical = chat::canonical_json(*value);
  const auto again = chat::parse_json(canonical, "canonical");
  INK_CHECK(again.has_value() && chat::canonical_json(*again) == canonical,
            "canonical JSON is not a fixed point");
}

// One end token for each block, counted from the request.
std::size_t num_blocks(const chat::ChatRequest& request) {
  std::size_t count = 1;  // the effort
  if (!request.tools.empty() && request.tool_choice.kind != chat::ToolChoice::Kind::kNone) ++count;
  for (const chat::Message& message : request.messages) count += message.parts.size() + message.calls.size();
  if (request.continue_final_message) count -= request.messages.back().parts.size();
  return count;
}

void check_prompt(const chat::ChatRequest& request) {
  const chat::PromptEncoder encoder(mini_tokenizer(), mini_special_tokens());
  const std::vector<chat::MediaSlots> media(chat::media_of(request).size(), {3, {}});
  const auto prompt = encoder.encode(request, media);
  INK_CHECK(prompt.has_value());
  std::size_t num_ends = 0;
  for (const std::int32_t id : prompt->ids) {
    INK_CHECK(mini_tokenizer().is_known(id));
    if (id == mini_special_tokens().end_message) ++num_ends;
  }
  INK_CHECK(num_ends == num_blocks(request), "a text became a control token");
}

}  // namespace

std::vector<std::string> test_support::fuzz_seeds() {
  return {
      R"({"messages":[{"role":"user","content":"Hello!"}]})",
      R"({"messages":[{"role":"system","content":"You are <|end_message|>"},{"role":"user","content":["a",{"text":"b"}]}],)"
      R"("reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":false}})",
      R"({"tools":[{"type":"function","function":{"name":"get_weather","description":"Get","parameters":{"type":"object",)"
      R"("required":["city"],"properties":{"city":{"type":"string","x":[1.0,1e20,-0.5e-7,12345678901234567890,null]}}}}}],)"
      R"("messages":[{"role":"user","content":"Paris?"}],"tool_choice":"auto","parallel_tool_calls":false})",
      R"({"messages":[{"role":"assistant","reasoning_content":"r","content":null,"tool_calls":[{"id":"a1","type":)"
      R"("function","function":{"name":"f","arguments":"{\"b\": 1, \"a\": \"\\ud83e\\udd80\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"a1","content":"18 C"}],"reasoning":{"effort":0.37}})",
      R"({"messages":[{"role":"developer","content":"r","tools":[{"function":{"name":"g"}}]},{"role":"user","content":[)"
      R"({"type":"image_url","image_url":{"url":"data:,x"}},{"type":"input_audio","input_audio":{"data":"A","format":"wav"}},)"
      R"({"type":"refusal","refusal":"no"}]}],"add_generation_prompt":false})",
      R"({"messages":[{"role":"assistant","content":"2, 3,"}],"continue_final_message":true,"output_config":{"effort":"max"}})",
  };
}

}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inkstone;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_json(text);
  const auto request = chat::parse_chat_request(text);
  if (request) {
    check_prompt(*request);
  } else {
    INK_CHECK(request.error().kind == ErrorKind::kInvalidArgument);
    INK_CHECK(text::is_valid_utf8(request.error().message), request.error().message);
  }
  return 0;
}
