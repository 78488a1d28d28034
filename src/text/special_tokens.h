// SPDX-License-Identifier: Apache-2.0
// text/special_tokens.h - the ids that the chat format needs, resolved by spelling at load time.
// The numbers differ between checkpoints: compare with these, never with a constant.
#pragma once

#include <array>
#include <cstdint>

#include "base/result.h"
#include "text/tokenizer.h"

namespace inkstone::text {

struct SpecialTokens {
  static constexpr std::int32_t kAbsent = -1;  // equals no id that a model can produce

  std::int32_t message_user = kAbsent;  // author tokens: who wrote the block
  std::int32_t message_model = kAbsent;
  std::int32_t message_system = kAbsent;
  std::int32_t message_tool = kAbsent;
  std::int32_t content_text = kAbsent;  // kind tokens: what the block holds
  std::int32_t content_thinking = kAbsent;
  std::int32_t content_image = kAbsent;
  std::int32_t content_audio = kAbsent;
  std::int32_t content_tool_list = kAbsent;
  std::int32_t content_tool_call = kAbsent;
  std::int32_t end_message = kAbsent;   // ends a block, not the turn
  std::int32_t end_sampling = kAbsent;  // ends the model's turn
  std::int32_t audio_end = kAbsent;
  std::int32_t audio_slot = kAbsent;  // one per 50 ms
  std::int32_t image_slot = kAbsent;  // one per patch

  // Only recognised in output: a vocabulary may lack them.
  std::int32_t end_of_text = kAbsent;
  std::int32_t content_tool_error = kAbsent;
  std::int32_t content_tool_text = kAbsent;

  // Must never be sampled: the embedding of a slot is not meant to be read, and a marker announces slots.
  [[nodiscard]] std::array<std::int32_t, 4> never_sampled() const {
    return {audio_slot, image_slot, content_image, content_audio};
  }
};

// kCorrupt when needed tokens are missing: the message names them all. Warns in the log when a vocabulary of
// the released size has other ids than the released one.
Result<SpecialTokens> resolve_special_tokens(const Tokenizer& tokenizer);

}  // namespace inkstone::text
