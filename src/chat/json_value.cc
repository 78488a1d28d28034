// SPDX-License-Identifier: Apache-2.0
#include "chat/json_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "text/utf8.h"

namespace inkstone::chat {
namespace {

using nlohmann::json;
using Kind = JsonValue::Kind;

// Keeps the last value of each key, at the place of the first.
void merge_repeated_keys(std::vector<JsonMember>& members) {
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return members[a].key < members[b].key; });
  std::vector<bool> repeated(members.size(), false);
  std::size_t first = 0;
  bool any = false;
  for (std::size_t idx = 1; idx < order.size(); ++idx) {
    if (members[order[idx]].key != members[order[first]].key) {
      first = idx;
      continue;
    }
    any = true;
    members[order[first]].value = std::move(members[order[idx]].value);
    repeated[order[idx]] = true;
  }
  if (!any) return;
  std::size_t kept = 0;
  for (std::size_t idx = 0; idx < members.size(); ++idx) {
    if (repeated[idx]) continue;
    if (kept != idx) members[kept] = std::move(members[idx]);
    ++kept;
  }
  members.resize(kept);
}

// Builds the tree from parser events, because the library's own tree forgets how a number was spelled.
class TreeBuilder : public json::json_sax_t {
 public:
  JsonValue root;
  std::string error;

  bool null() override { return add(Kind::kNull) != nullptr; }
  bool boolean(bool value) override {
    add(Kind::kBool)->boolean = value;
    return true;
  }
  // Only numbers with a minus sign come here. The vendor's parser takes -0 for a float.
  bool number_integer(std::int64_t value) override {
    if (value == 0) return add_number(Kind::kFloat, -0.0, "-0.0");
    return add_number(Kind::kInteger, static_cast<double>(value), fmt::to_string(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    return add_number(Kind::kInteger, static_cast<double>(value), fmt::to_string(value));
  }
  // Integers beyond 64 bits arrive here too; they keep their digits.
  bool number_float(double value, const std::string& spelled) override {
    const bool integer = spelled.find_first_of(".eE") == std::string::npos;
    return add_number(integer ? Kind::kInteger : Kind::kFloat, value,
                      integer ? spelled : shortest_float(value));
  }
  bool string(std::string& value) override {
    add(Kind::kString)->text = std::move(value);
    return true;
  }
  bool binary(json::binary_t&) override { return false; }
  bool key(std::string& value) override {
    open_.back()->members.push_back({std::move(value), {}});
    return true;
  }
  bool start_object(std::size_t) override { return open(Kind::kObject); }
  bool start_array(std::size_t) override { return open(Kind::kArray); }
  bool end_object() override {
    merge_repeated_keys(open_.back()->members);
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& fault) override {
    error = fault.what();
    // "[json.exception.parse_error.101] " in front and the offending text, perhaps megabytes of it, at the
    // end.
    if (const std::size_t tag = error.find("] "); tag != std::string::npos) error.erase(0, tag + 2);
    if (const std::size_t last = error.find("; last read"); last != std::string::npos) error.erase(last);
    error = text::replace_invalid_utf8(std::string_view(error).substr(0, 300));
    return false;
  }

 private:
  JsonValue* add(Kind kind) {
    JsonValue* value = &root;
    if (!open_.empty() && open_.back()->kind == Kind::kArray) value = &open_.back()->items.emplace_back();
    if (!open_.empty() && open_.back()->kind == Kind::kObject) value = &open_.back()->members.back().value;
    value->kind = kind;
    return value;
  }

  bool add_number(Kind kind, double number, std::string spelled) {
    JsonValue* value = add(kind);
    value->number = number;
    value->text = std::move(spelled);
    return true;
  }

  bool open(Kind kind) {
    if (open_.size() == kMaxJsonDepth) {
      error = fmt::format("nested deeper than {} levels", kMaxJsonDepth);
      return false;
    }
    open_.push_back(add(kind));
    return true;
  }

  // A parent's vectors do not grow while a child is open, so the pointers stay valid.
  std::vector<JsonValue*> open_;
};

void append(const JsonValue& value, bool sorted, std::string& out);

void append_array(const std::vector<JsonValue>& items, bool sorted, std::string& out) {
  out.push_back('[');
  for (std::size_t idx = 0; idx < items.size(); ++idx) {
    if (idx > 0) out.push_back(',');
    append(items[idx], sorted, out);
  }
  out.push_back(']');
}

void append_object(const std::vector<JsonMember>& members, bool sorted, std::string& out) {
  std::vector<const JsonMember*> order;
  order.reserve(members.size());
  for (const JsonMember& member : members) order.push_back(&member);
  // Comparing the bytes of UTF-8 orders by code point.
  if (sorted) std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->key < b->key; });
  out.push_back('{');
  for (std::size_t idx = 0; idx < order.size(); ++idx) {
    if (idx > 0) out.push_back(',');
    append_json_string(order[idx]->key, out);
    out.push_back(':');
    append(order[idx]->value, sorted, out);
  }
  out.push_back('}');
}

void append(const JsonValue& value, bool sorted, std::string& out) {
  switch (value.kind) {
    case Kind::kNull:
      out += "null";
      break;
    case Kind::kBool:
      out += value.boolean ? "true" : "false";
      break;
    case Kind::kInteger:
    case Kind::kFloat:
      out += value.text;
      break;
    case Kind::kString:
      append_json_string(value.text, out);
      break;
    case Kind::kArray:
      append_array(value.items, sorted, out);
      break;
    case Kind::kObject:
      append_object(value.members, sorted, out);
      break;
  }
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view key) const {
  const auto matches = [&](const JsonMember& member) { return member.key == key; };
  const auto found = std::find_if(members.begin(), members.end(), matches);
  return found == members.end() ? nullptr : &found->value;
}

Result<JsonValue> parse_json(std::string_view text, std::string_view what) {
  // The parser takes U+0000 for the end of its input.
  if (text.find('\0') != std::string_view::npos) return invalid(fmt::format("{}: holds a NUL byte", what));
  TreeBuilder builder;
  if (!json::sax_parse(text, &builder)) return invalid(fmt::format("{}: {}", what, builder.error));
  return std::move(builder.root);
}

std::string canonical_json(const JsonValue& value) {
  std::string out;
  append(value, /*sorted=*/true, out);
  return out;
}

std::string ordered_json(const JsonValue& value) {
  std::string out;
  append(value, /*sorted=*/false, out);
  return out;
}

void append_json_string(std::string_view text, std::string& out) {
  constexpr std::string_view kShort = "\b\f\n\r\t\"\\";
  constexpr std::string_view kLetter = "bfnrt\"\\";
  out.push_back('"');
  for (const char c : text) {
    const std::size_t idx = kShort.find(c);
    if (idx != std::string_view::npos) {
      out.push_back('\\');
      out.push_back(kLetter[idx]);
    } else if (static_cast<std::uint8_t>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<std::uint8_t>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

std::string shortest_float(double value) {
  std::array<char, 32> buffer{};  // zeros end the exponent for atoi
  char* const end =
      std::to_chars(buffer.begin(), buffer.end(), std::fabs(value), std::chars_format::scientific).ptr;
  const std::string_view spelled(buffer.data(), end - buffer.data());
  const std::size_t e = spelled.find('e');
  const int exponent = std::atoi(spelled.data() + e + 1);
  std::string digits(spelled.substr(0, 1));
  if (e > 2) digits += spelled.substr(2, e - 2);
  const std::string sign = std::signbit(value) ? "-" : "";
  const int num_digits = static_cast<int>(digits.size());
  if (value == 0) return sign + "0.0";
  if (exponent < -5 || exponent >= 16) {
    if (num_digits > 1) digits.insert(1, ".");
    return fmt::format("{}{}e{}", sign, digits, exponent);
  }
  if (exponent < 0) return sign + "0." + std::string(-exponent - 1, '0') + digits;
  if (num_digits <= exponent + 1) return sign + digits + std::string(exponent + 1 - num_digits, '0') + ".0";
  digits.insert(exponent + 1, ".");
  return sign + digits;
}

}  // namespace inkstone::chat
