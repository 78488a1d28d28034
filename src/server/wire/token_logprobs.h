// SPDX-License-Identifier: Apache-2.0
// server/wire/token_logprobs.h - log-probabilities of tokens in OpenAI's two forms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/submission.h"
#include "text/tokenizer.h"

namespace inkstone::server {

// As clients see a token: bytes that are no UTF-8 by themselves replaced, special tokens without a spelling,
// because no structural marker reaches a client.
std::string token_text(const text::Tokenizer& tokenizer, std::int32_t id);

// One entry of choices[].logprobs.content of chat completions, as JSON.
std::string chat_logprob_json(const text::Tokenizer& tokenizer, const engine::TokenEvent& event);

// The object choices[].logprobs of completions, as JSON: parallel arrays.
class CompletionLogprobs {
 public:
  // `offset`: code points of the answer's text before the token.
  void add(const text::Tokenizer& tokenizer, const engine::TokenEvent& event, std::int64_t offset);
  // The first token of a prompt: nothing says how likely it was.
  void add_first(const text::Tokenizer& tokenizer, std::int32_t id);
  [[nodiscard]] bool empty() const { return tokens_.empty(); }
  // What was added since the last call.
  std::string take_json();

 private:
  std::string tokens_;
  std::string values_;
  std::string tops_;
  std::string offsets_;
};

}  // namespace inkstone::server
