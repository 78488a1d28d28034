// SPDX-License-Identifier: Apache-2.0
#include "text/stop_strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace inkstone::text {

Status validate_stop_strings(std::span<const std::string> stops) {
  if (stops.size() > kMaxStopStrings)
    return invalid(
        fmt::format("stop holds {} strings, at most {} are allowed", stops.size(), kMaxStopStrings));
  if (std::ranges::any_of(stops, &std::string::empty)) return invalid("stop must not hold an empty string");
  return {};
}

// The failure table of Knuth, Morris and Pratt: text that keeps almost matching is never scanned twice.
StopStrings::Pattern StopStrings::compile(std::string text) {
  Pattern pattern{std::move(text), {}, 0};
  pattern.fallback.assign(pattern.text.size(), 0);
  for (std::size_t i = 1, length = 0; i < pattern.text.size(); ++i) {
    while (length > 0 && pattern.text[i] != pattern.text[length]) length = pattern.fallback[length - 1];
    if (pattern.text[i] == pattern.text[length]) ++length;
    pattern.fallback[i] = length;
  }
  return pattern;
}

StopStrings::StopStrings(std::vector<std::string> stops, bool keep_match) : keep_match_(keep_match) {
  for (std::string& stop : stops) patterns_.push_back(compile(std::move(stop)));
}

bool StopStrings::advance(Pattern& pattern, char byte) {
  std::size_t& length = pattern.matched;
  while (length > 0 && pattern.text[length] != byte) length = pattern.fallback[length - 1];
  if (pattern.text[length] == byte) ++length;
  return length == pattern.text.size();
}

std::size_t StopStrings::longest_completed(char byte) {
  std::size_t longest = kNone;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    const bool completed = advance(patterns_[i], byte);
    if (completed && (longest == kNone || patterns_[i].text.size() > patterns_[longest].text.size()))
      longest = i;
  }
  return longest;
}

std::size_t StopStrings::longest_beginning() const {
  std::size_t longest = 0;
  for (const Pattern& pattern : patterns_) longest = std::max(longest, pattern.matched);
  return longest;
}

void StopStrings::cut_at(std::size_t pattern_idx) {
  if (!keep_match_) held_.resize(held_.size() - patterns_[pattern_idx].text.size());
  matched_ = pattern_idx;
}

std::string StopStrings::push(std::string_view piece) {
  if (stopped()) return {};
  if (patterns_.empty()) return std::string(piece);
  for (const char byte : piece) {
    held_.push_back(byte);
    if (const std::size_t completed = longest_completed(byte); completed != kNone) {
      cut_at(completed);
      return std::exchange(held_, {});
    }
  }
  std::string released = held_.substr(0, held_.size() - longest_beginning());
  held_.erase(0, released.size());
  return released;
}

std::string StopStrings::end_block() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace inkstone::text
