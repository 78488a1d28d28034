// SPDX-License-Identifier: Apache-2.0
// chat/json_value.h - JSON from a client: strict parsing that keeps what the prompt needs, and the canonical
// form. The form follows the vendor's renderer: sorted keys, no spaces, floats in shortest notation
// (canonical_json).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace inkstone::chat {

struct JsonMember;

struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kFloat, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  double number = 0;             // kInteger (rounded) and kFloat
  std::string text;              // kString; of numbers the canonical spelling
  std::vector<JsonValue> items;  // kArray
  std::vector<JsonMember>
      members;  // kObject: distinct keys, in the order given; of a repeated key the last value

  // Null when this is no object or has no such key. Linear in the members.
  [[nodiscard]] const JsonValue* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// Deeper nesting is refused, so that everything that walks a value may recurse.
inline constexpr int kMaxJsonDepth = 256;

// Refuses (kInvalidArgument) what is no JSON text in valid UTF-8, lone surrogates, numbers that overflow,
// deep nesting. The message starts with `what`, the name of the text.
Result<JsonValue> parse_json(std::string_view text, std::string_view what);

// Keys sorted by code point at every depth, separators without spaces, only ", \ and U+0000 to U+001F
// escaped. Integers keep their digits; floats: fixed notation for 1e-5 <= |x| < 1e16, else like `1.5e-7`,
// always with a point or an exponent.
std::string canonical_json(const JsonValue& value);

// The same with the members in the order given.
std::string ordered_json(const JsonValue& value);

void append_json_string(std::string_view text, std::string& out);
std::string shortest_float(double value);  // finite

}  // namespace inkstone::chat
