// SPDX-License-Identifier: Apache-2.0
// text/detokenizer.h - text of a token stream, as soon as whole characters are there. One per output channel.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8.h"

namespace inkstone::text {

// Not thread-safe. The tokenizer must outlive it.
class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, Tokenizer::Specials specials = Tokenizer::Specials::kSkip)
      : tokenizer_(&tokenizer), specials_(specials) {}

  // Appends the text that became final. A special token closes a pending character (U+FFFD) and adds its
  // spelling or nothing.
  void push(std::int32_t id, std::string& out);
  // At the end of generation.
  void flush(std::string& out) { stream_.flush(out); }

 private:
  const Tokenizer* tokenizer_;
  Tokenizer::Specials specials_;
  Utf8Stream stream_;
};

}  // namespace inkstone::text
