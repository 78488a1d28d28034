// SPDX-License-Identifier: Apache-2.0
#include "text/special_tokens.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "base/log.h"

namespace inkstone::text {
namespace {

struct Row {
  std::int32_t SpecialTokens::*field;
  std::int32_t released_id;
  std::array<std::string_view, 2> spellings;  // tried in order; the second may be empty
  bool needed = true;
};

constexpr std::int32_t kReleasedVocabularySize = 200058;

constexpr std::array<Row, 18> kRows = {{
    {&SpecialTokens::message_user, 200000, {"<|message_user|>"}},
    {&SpecialTokens::message_model, 200001, {"<|message_model|>"}},
    {&SpecialTokens::message_system, 200002, {"<|message_system|>"}},
    {&SpecialTokens::message_tool, 200003, {"<|message_tool|>"}},
    {&SpecialTokens::content_text, 200004, {"<|content_text|>"}},
    {&SpecialTokens::content_thinking, 200008, {"<|content_thinking|>"}},
    {&SpecialTokens::content_image, 200005, {"<|content_image|>"}},
    {&SpecialTokens::content_audio, 200020, {"<|content_audio_input|>"}},
    {&SpecialTokens::content_tool_list, 200024, {"<|content_xml|>", "<|unused_200024|>"}},
    {&SpecialTokens::content_tool_call, 200049, {"<|content_invoke_tool_json|>"}},
    {&SpecialTokens::end_message, 200010, {"<|end_message|>"}},
    {&SpecialTokens::end_sampling, 200006, {"<|content_model_end_sampling|>"}},
    {&SpecialTokens::audio_end, 200043, {"<|audio_end|>"}},
    {&SpecialTokens::audio_slot, 200053, {"<|unused_200053|>"}},
    {&SpecialTokens::image_slot, 200054, {"<|unused_200054|>"}},
    {&SpecialTokens::end_of_text, 199999, {"<|endoftext|>"}, false},
    {&SpecialTokens::content_tool_error, 200022, {"<|content_tool_error|>"}, false},
    {&SpecialTokens::content_tool_text, 200057, {"<|content_invoke_tool_text|>"}, false},
}};

std::int32_t find_id(const Tokenizer& tokenizer, const Row& row) {
  for (const std::string_view spelling : row.spellings) {
    if (const auto id = tokenizer.special_id(spelling); id && !spelling.empty()) return *id;
  }
  return SpecialTokens::kAbsent;
}

}  // namespace

Result<SpecialTokens> resolve_special_tokens(const Tokenizer& tokenizer) {
  SpecialTokens tokens;
  std::string missing;
  const bool released = tokenizer.vocabulary_size() == kReleasedVocabularySize;
  for (const Row& row : kRows) {
    const std::int32_t id = find_id(tokenizer, row);
    tokens.*row.field = id;
    if (id == SpecialTokens::kAbsent) {
      if (row.needed) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", row.spellings[0]);
    } else if (released && id != row.released_id) {
      log::warning(fmt::format("special token {} has id {} instead of the released {}", row.spellings[0], id,
                               row.released_id));
    }
  }
  if (missing.empty()) return tokens;
  return fail(ErrorKind::kCorrupt,
              fmt::format("the tokenizer lacks special tokens that the chat format needs: {}", missing));
}

}  // namespace inkstone::text
