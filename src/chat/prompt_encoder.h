// SPDX-License-Identifier: Apache-2.0
// chat/prompt_encoder.h - a conversation to token ids. Takes a ChatRequest (chat/request_parser.h); the ids
// go to the engine. Client text can never become a control token: only the structure itself is written with
// special ids.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/chat_request.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace inkstone::chat {

// Two sources of the vendor disagree about where the tool list stands; the checkpoint's own template has it
// first.
enum class ToolListOrder { kFirst, kAfterSystem };

// One medium as its preprocessor sees it: how many slots it fills, and what distinguishes it from others in
// cache keys.
struct MediaSlots {
  std::int64_t num_slots = 0;
  std::array<std::uint64_t, 2> content_hash{};
};

// A run of slots in the prompt: ids[first_slot, first_slot + num_slots).
struct MediaSpan {
  MediaKind kind = MediaKind::kImage;
  std::int64_t first_slot = 0;
  std::int64_t num_slots = 0;
  std::size_t media_idx = 0;  // in the order of media_of(request)
  std::array<std::uint64_t, 2> content_hash{};
};

struct EncodedPrompt {
  std::vector<std::int32_t> ids;
  std::vector<MediaSpan> media;
};

// Immutable; may be shared by threads. The tokenizer must outlive it.
class PromptEncoder {
 public:
  PromptEncoder(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens,
                ToolListOrder order = ToolListOrder::kFirst)
      : tokenizer_(&tokenizer), tokens_(tokens), order_(order) {}

  // `media` has one entry for each of media_of(request). With fewer the first medium without slots is refused
  // (kUnsupported, names the field): a caller without media support passes none.
  [[nodiscard]] Result<EncodedPrompt> encode(const ChatRequest& request,
                                             std::span<const MediaSlots> media = {}) const;

  // The prompt as text with the special tokens spelled out, for people to read.
  [[nodiscard]] std::string spell(std::span<const std::int32_t> ids) const;

 private:
  class Writer;

  const text::Tokenizer* tokenizer_;
  text::SpecialTokens tokens_;
  ToolListOrder order_;
};

}  // namespace inkstone::chat
