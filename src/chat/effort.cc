// SPDX-License-Identifier: Apache-2.0
#include "chat/effort.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "text/utf8.h"

namespace inkstone::chat {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 7> kWords = {{{"none", 0.0},
                                                                        {"minimal", 0.1},
                                                                        {"low", 0.2},
                                                                        {"medium", 0.7},
                                                                        {"high", 0.9},
                                                                        {"xhigh", 0.99},
                                                                        {"max", 0.99}}};

std::optional<double> read_effort(std::string_view text) {
  for (const auto& [word, effort] : kWords) {
    if (text == word) return effort;
  }
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<double> in_range(double effort, std::string_view what) {
  // Written so that NaN is refused.
  if (effort >= 0 && effort <= kHighestEffort) return effort + 0.0;
  return invalid(fmt::format("{}: effort must be between 0 and {}", what, kHighestEffort));
}

}  // namespace

Result<double> parse_effort(std::string_view text, std::string_view what) {
  const std::optional<double> effort = read_effort(text);
  if (effort) return in_range(*effort, what);
  return invalid(fmt::format(
      "{}: unknown effort '{}', expected none, minimal, low, medium, high, xhigh, max or a number", what,
      text::replace_invalid_utf8(text.substr(0, 40))));
}

Result<double> parse_effort(const Field& field) {
  if (!field.present()) return kDefaultEffort;
  if (field.is_string()) return parse_effort(field.value().text, field.path());
  const bool number = field.is(JsonValue::Kind::kInteger) || field.is(JsonValue::Kind::kFloat);
  if (!number) return field.refuse("must be a word or a number");
  return in_range(field.value().number, field.path());
}

Result<double> effort_of_request(const Field& request) {
  const std::array<std::pair<std::string_view, std::string_view>, 3> nested = {
      {{"chat_template_kwargs", "reasoning_effort"}, {"reasoning", "effort"}, {"output_config", "effort"}}};
  const Field direct = request["reasoning_effort"];
  if (direct.present()) return parse_effort(direct);
  for (const auto& [outer, inner] : nested) {
    const Field field = request[outer];
    if (field.present()) INK_TRY(field.require_object());
    if (field[inner].present()) return parse_effort(field[inner]);
  }
  return kDefaultEffort;
}

std::string spell_effort(double effort) {
  std::string text = fmt::format("{:.2f}", effort + 0.0);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace inkstone::chat
