// SPDX-License-Identifier: Apache-2.0
// eval/needle.h - items that hide one fact in a long text: any length in the model's own tokens, any depth.
// The sentences are of the kind that the shipped model was trained on, so that it can be asked too.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "chat/prompt_encoder.h"

namespace inkstone::eval {

struct NeedleTask {
  std::int64_t prompt_tokens = 0;  // of the whole prompt, exactly
  double depth = 0.5;              // where the fact stands in the text: 0 the beginning, 1 the end
  std::uint64_t seed = 0;          // the same task is the same item, everywhere
};

class NeedleMaker {
 public:
  // The tokenizer must outlive the maker.
  NeedleMaker(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens)
      : tokenizer_(&tokenizer), encoder_(tokenizer, tokens) {}

  // A line of a task set. kInvalidArgument: a prompt too short for a fact and its question, or a length that
  // no sequence of sentences makes (near the shortest only).
  [[nodiscard]] Result<std::string> make(const NeedleTask& task) const;

 private:
  struct Parts;
  struct Sentence;

  [[nodiscard]] Parts draw_parts(std::uint64_t seed) const;
  [[nodiscard]] std::int64_t prompt_tokens(const std::string& content) const;
  [[nodiscard]] Result<std::string> fill(const Parts& parts, const NeedleTask& task,
                                         std::int64_t filler_tokens) const;

  const text::Tokenizer* tokenizer_;
  chat::PromptEncoder encoder_;
};

// "4096", "4k" (1024 each), "1M" (1024 k).
Result<std::int64_t> parse_length(const std::string& text);

}  // namespace inkstone::eval
