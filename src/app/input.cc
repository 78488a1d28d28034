// SPDX-License-Identifier: Apache-2.0
#include "app/input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

namespace inkstone::app {
namespace {

constexpr std::string_view kSeparators = ", \t\r\n";

Result<std::string> read_all(std::FILE* file, std::string_view what) {
  std::string text;
  char block[1 << 16];
  while (const std::size_t count = std::fread(block, 1, sizeof block, file)) text.append(block, count);
  if (std::ferror(file) == 0) return text;
  return invalid(fmt::format("{} cannot be read: {}", what, std::strerror(errno)));
}

// Long inputs are cut: a message is one line.
std::string quote(std::string_view text) {
  constexpr std::size_t kShown = 40;
  if (text.size() <= kShown) return fmt::format("'{}'", text);
  return fmt::format("'{}...'", text.substr(0, kShown));
}

template <class T>
std::optional<T> convert(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::int32_t> to_id(std::optional<std::int64_t> value, std::string_view spelling,
                           std::string_view what) {
  if (value && *value >= 0 && *value <= std::numeric_limits<std::int32_t>::max())
    return static_cast<std::int32_t>(*value);
  return invalid(fmt::format("{}: {} is not a token id", what, quote(spelling)));
}

Result<std::vector<std::int32_t>> parse_id_words(std::string_view text, std::string_view what) {
  std::vector<std::int32_t> ids;
  for (std::size_t begin = text.find_first_not_of(kSeparators); begin != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kSeparators, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    ids.push_back(INK_TRY(to_id(convert<std::int64_t>(word), word, what)));
    begin = text.find_first_not_of(kSeparators, end);
  }
  return ids;
}

Result<std::vector<std::int32_t>> parse_id_json(std::string_view text, std::string_view what) {
  nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_object() && document.contains("ids")) document = nlohmann::json(document["ids"]);
  if (!document.is_array())
    return invalid(fmt::format("{}: neither a list of ids nor JSON with \"ids\"", what));
  std::vector<std::int32_t> ids;
  for (const nlohmann::json& element : document) {
    std::optional<std::int64_t> value;
    if (element.is_number_integer()) value = element.get<std::int64_t>();
    const std::string spelling = element.is_primitive()
                                     ? element.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                                     : "a list";
    ids.push_back(INK_TRY(to_id(value, spelling, what)));
  }
  return ids;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::string_view what) {
  const std::string name = fmt::format("{} {}", what, path);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return invalid(fmt::format("{} cannot be read: {}", name, std::strerror(errno)));
  return read_all(file.get(), name);
}

Result<std::string> read_standard_input() { return read_all(stdin, "standard input"); }

Result<std::vector<std::int32_t>> parse_ids(std::string_view text, std::string_view what) {
  const std::size_t first = text.find_first_not_of(kSeparators);
  const bool json = first != std::string_view::npos && (text[first] == '[' || text[first] == '{');
  std::vector<std::int32_t> ids = INK_TRY(json ? parse_id_json(text, what) : parse_id_words(text, what));
  if (ids.empty()) return invalid(fmt::format("{}: there are no ids", what));
  return ids;
}

std::string spell_ids(std::span<const std::int32_t> ids) { return fmt::format("{}", fmt::join(ids, ",")); }

Result<std::int64_t> parse_integer(std::string_view text, IntegerRange range, std::string_view what) {
  const std::optional<std::int64_t> value = convert<std::int64_t>(text);
  if (value && *value >= range.low && *value <= range.high) return *value;
  if (range.high == std::numeric_limits<std::int64_t>::max())
    return invalid(
        fmt::format("{} must be a whole number of at least {}, not {}", what, range.low, quote(text)));
  return invalid(fmt::format("{} must be a whole number from {} to {}, not {}", what, range.low, range.high,
                             quote(text)));
}

Result<double> parse_number(std::string_view text, std::string_view what) {
  const std::optional<double> value = convert<double>(text);
  if (value && std::isfinite(*value)) return *value;
  return invalid(fmt::format("{} must be a finite number, not {}", what, quote(text)));
}

}  // namespace inkstone::app
