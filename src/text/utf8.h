// SPDX-License-Identifier: Apache-2.0
// text/utf8.h - strict UTF-8: checking, repairing, and decoding a stream of bytes that is cut anywhere.
// Invalid input is replaced by U+FFFD, one per maximal invalid subpart (the WHATWG rule).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace inkstone::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// What stands at the start of some bytes.
struct Utf8Step {
  enum class Kind { kComplete, kInvalid, kIncomplete };
  Kind kind = Kind::kInvalid;
  int num_bytes = 0;             // consumed; at kIncomplete all bytes that are left
  std::uint32_t code_point = 0;  // at kComplete
};

// `bytes` must not be empty. kIncomplete: more bytes could still make the sequence valid.
Utf8Step decode_utf8(std::string_view bytes);

void append_utf8(std::uint32_t code_point, std::string& out);

// True, or false with the offset of the first byte of the first invalid sequence.
bool is_valid_utf8(std::string_view bytes, std::size_t* invalid_offset = nullptr);

// An error that names `what` and the offset, for raw inputs that must be text (a command line, a file).
Status validate_utf8(std::string_view bytes, std::string_view what);

std::string replace_invalid_utf8(std::string_view bytes);

// Text of a stream of bytes. Holds back 1 to 3 bytes of a sequence that may still become valid.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& out);  // appends what is complete
  void flush(std::string& out);                         // a held tail becomes one U+FFFD
  [[nodiscard]] bool empty() const { return tail_.empty(); }

 private:
  std::string tail_;
};

}  // namespace inkstone::text
