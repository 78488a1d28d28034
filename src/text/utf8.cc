// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <fmt/format.h>

#include <cstring>

namespace inkstone::text {
namespace {

struct Lead {
  int num_bytes = 0;  // 0: not a lead byte
  std::uint8_t second_min =
      0x80;  // the second byte's range excludes overlong forms, surrogates, values above U+10FFFF
  std::uint8_t second_max = 0xBF;
};

Lead classify(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

bool continues(const Lead& lead, int idx, std::uint8_t byte) {
  if (idx == 1) return byte >= lead.second_min && byte <= lead.second_max;
  return (byte & 0xC0) == 0x80;
}

std::size_t ascii_prefix(std::string_view bytes) {
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + 8 <= bytes.size(); at += 8) {
    std::memcpy(&word, bytes.data() + at, 8);
    if ((word & 0x8080808080808080ULL) != 0) break;
  }
  while (at < bytes.size() && static_cast<std::uint8_t>(bytes[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Step decode_utf8(std::string_view bytes) {
  using Kind = Utf8Step::Kind;
  const auto first = static_cast<std::uint8_t>(bytes[0]);
  const Lead lead = classify(first);
  if (lead.num_bytes == 0) return {Kind::kInvalid, 1, 0};
  if (lead.num_bytes == 1) return {Kind::kComplete, 1, first};
  std::uint32_t code_point = first & (0x7FU >> lead.num_bytes);
  for (int idx = 1; idx < lead.num_bytes; ++idx) {
    if (static_cast<std::size_t>(idx) == bytes.size()) return {Kind::kIncomplete, idx, 0};
    const auto byte = static_cast<std::uint8_t>(bytes[idx]);
    if (!continues(lead, idx, byte)) return {Kind::kInvalid, idx, 0};
    code_point = (code_point << 6) | (byte & 0x3FU);
  }
  return {Kind::kComplete, lead.num_bytes, code_point};
}

void append_utf8(std::uint32_t code_point, std::string& out) {
  const auto push = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return push(code_point);
  if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3F));
  } else {
    push(0xF0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3F));
    push(0x80 | ((code_point >> 6) & 0x3F));
  }
  push(0x80 | (code_point & 0x3F));
}

bool is_valid_utf8(std::string_view bytes, std::size_t* invalid_offset) {
  for (std::size_t at = ascii_prefix(bytes); at < bytes.size(); at += ascii_prefix(bytes.substr(at))) {
    const Utf8Step step = decode_utf8(bytes.substr(at));
    if (step.kind != Utf8Step::Kind::kComplete) {
      if (invalid_offset != nullptr) *invalid_offset = at;
      return false;
    }
    at += step.num_bytes;
  }
  return true;
}

Status validate_utf8(std::string_view bytes, std::string_view what) {
  std::size_t offset = 0;
  if (is_valid_utf8(bytes, &offset)) return {};
  return invalid(fmt::format("{} is not valid UTF-8: byte 0x{:02x} at offset {}", what,
                             static_cast<std::uint8_t>(bytes[offset]), offset));
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  Utf8Stream stream;
  stream.push(bytes, out);
  stream.flush(out);
  return out;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!tail_.empty()) {
    joined = tail_ + std::string(bytes);
    bytes = joined;
    tail_.clear();
  }
  while (!bytes.empty()) {
    const std::size_t ascii = ascii_prefix(bytes);
    out.append(bytes.substr(0, ascii));
    bytes.remove_prefix(ascii);
    if (bytes.empty()) return;
    const Utf8Step step = decode_utf8(bytes);
    if (step.kind == Utf8Step::Kind::kIncomplete) {
      tail_ = bytes;
      return;
    }
    out.append(step.kind == Utf8Step::Kind::kComplete ? bytes.substr(0, step.num_bytes) : kReplacement);
    bytes.remove_prefix(step.num_bytes);
  }
}

void Utf8Stream::flush(std::string& out) {
  if (!tail_.empty()) out.append(kReplacement);
  tail_.clear();
}

}  // namespace inkstone::text
