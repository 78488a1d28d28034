// SPDX-License-Identifier: Apache-2.0
// Ids to reply: the first byte gives the options, each further one an id.
#include <string>

#include "base/check.h"
#include "tests/support/fuzz_driver.h"
#include "tests/support/real_tokenizer.h"
#include "tests/support/reply_invariants.h"

namespace inkstone {
namespace {

using test_support::mini_special_tokens;
using test_support::mini_tokenizer;

constexpr int kFirstSpecialByte = 0xC0;  // bytes from here on are special tokens, those below are text

std::int32_t id_of_byte(std::uint8_t byte) {
  if (byte >= kFirstSpecialByte) return 2000 + byte - kFirstSpecialByte;
  // '|' stays out, so that one in the output is a marker that leaked.
  const char text = byte == '|' ? '!' : static_cast<char>(byte);
  return *mini_tokenizer().ordinary_id(std::string_view(&text, 1));
}

char special(std::int32_t id) { return static_cast<char>(kFirstSpecialByte + id - 2000); }

}  // namespace

std::vector<std::string> test_support::fuzz_seeds() {
  const text::SpecialTokens& tokens = mini_special_tokens();
  const std::string think(1, special(tokens.content_thinking));
  const std::string model(1, special(tokens.message_model));
  const std::string text(1, special(tokens.content_text));
  const std::string call(1, special(tokens.content_tool_call));
  const std::string end(1, special(tokens.end_message));
  const std::string eos(1, special(tokens.end_sampling));
  const std::string payload = R"({"name":"f","args":{"a":[1,{"b":"}"}]}})";
  return {"\x01" + think + "plan" + end + model + text + "Hello END" + end + eos,
          "\x01" + think + "plan" + end + model + "f" + call + payload + end + model + "g" + call +
              R"({ "args" : {} , "name" : "\u0067" })" + end + eos,
          "\x13" + std::string("Hello!") + end + eos,
          "\x05" + ("f" + call) + payload + end + text + "done" + end + eos,
          "\x29" + ("f" + call) + R"({"name":"f","args":{"a":"b&quot;}})" + end + eos};
}

}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inkstone;
  if (size == 0) return 0;
  test_support::ReplyCase reply;
  reply.options.tools_offered = (data[0] & 1) != 0;
  if ((data[0] & 2) != 0) reply.options.stop = {"END", "lo"};
  reply.options.drop_calls = (data[0] & 4) != 0;
  reply.options.ignore_end_of_turn = (data[0] & 8) != 0;
  reply.options.keep_stop = (data[0] & 16) != 0;
  if ((data[0] & 32) != 0) reply.options.max_calls = 1;
  const text::SpecialTokens& tokens = test_support::mini_special_tokens();
  reply.prompt = {(data[0] & 64) != 0 ? tokens.end_message : tokens.message_model};
  for (std::size_t idx = 1; idx < size; ++idx) reply.ids.push_back(id_of_byte(data[idx]));
  const test_support::ReplyFinding finding =
      test_support::examine_reply(test_support::mini_tokenizer(), tokens, reply);
  INK_CHECK(finding.fault.empty(), finding.fault);
  return 0;
}
