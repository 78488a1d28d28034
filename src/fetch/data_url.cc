// SPDX-License-Identifier: Apache-2.0
#include "fetch/data_url.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/base64.h"

namespace inkstone::fetch {
namespace {

constexpr std::string_view kScheme = "data:";
constexpr std::string_view kBase64 = ";base64";

bool same_letters(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, [](char a, char b) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(a))) == b;
  });
}

}  // namespace

bool is_data_url(std::string_view url) { return same_letters(url.substr(0, kScheme.size()), kScheme); }

std::string decode_percent(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    const bool pair = text[i] == '%' && i + 2 < text.size() &&
                      std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    bytes += pair ? static_cast<char>(value) : text[i];
    if (pair) i += 2;
  }
  return bytes;
}

Result<std::string> read_data_url(std::string_view url) {
  const std::size_t comma = url.find(',');
  if (comma == std::string_view::npos) return invalid("is a data URL without a comma");
  const std::string_view head = url.substr(0, comma);
  const std::string_view payload = url.substr(comma + 1);
  const bool base64 =
      head.size() >= kBase64.size() && same_letters(head.substr(head.size() - kBase64.size()), kBase64);
  if (!base64) return decode_percent(payload);
  // Some clients encode the alphabet's '+', '/' and '='.
  if (payload.find('%') != std::string_view::npos) return decode_base64(decode_percent(payload));
  return decode_base64(payload);
}

}  // namespace inkstone::fetch
