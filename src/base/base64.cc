// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <array>
#include <cstdint>

namespace inkstone {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t kSpace = 64;
constexpr std::uint8_t kOther = 65;

constexpr std::array<std::uint8_t, 256> kValues = [] {
  std::array<std::uint8_t, 256> values{};
  values.fill(kOther);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  for (const char space : {' ', '\t', '\r', '\n'}) values[static_cast<unsigned char>(space)] = kSpace;
  return values;
}();

std::uint8_t value_of(char byte) { return kValues[static_cast<unsigned char>(byte)]; }

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::string_view group = bytes.substr(i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < group.size() ? static_cast<unsigned char>(group[k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= group.size() ? kAlphabet[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

Result<std::string> decode_base64(std::string_view text) {
  while (!text.empty() && value_of(text.back()) == kSpace) text.remove_suffix(1);
  std::size_t padding = 0;
  for (; !text.empty() && text.back() == '='; ++padding) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  std::size_t count = 0;
  for (const char byte : text) {
    const std::uint8_t value = value_of(byte);
    if (value == kSpace) continue;
    if (value == kOther) return invalid("is no base64: it holds other characters");
    bits = bits << 6 | value;
    ++count;
    const std::size_t held = count * 6 % 8;  // bits that are left when a byte is complete
    if (held < 6) bytes += static_cast<char>(bits >> held & 255);
  }
  if (count % 4 == 1 || padding > 2 || (padding > 0 && (count + padding) % 4 != 0))
    return invalid("is no base64: its length");
  return bytes;
}

}  // namespace inkstone
