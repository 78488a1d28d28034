// SPDX-License-Identifier: Apache-2.0
// text/stop_strings.h - finds stop strings in text that arrives in pieces, and holds back what may become
// one. Rules: chat.md 3.6. The result does not depend on where the pieces are cut: generation stops at the
// first byte that completes any stop string; of several completed by that byte the longest counts, so the cut
// is the earliest start.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace inkstone::text {

inline constexpr std::size_t kMaxStopStrings = 64;

// Empty strings and more than kMaxStopStrings are refused; the message starts with "stop".
Status validate_stop_strings(std::span<const std::string> stops);

// One stream of visible text. Not thread-safe. Pushing costs time linear in bytes times stop strings.
// Pieces of whole UTF-8 characters give pieces of whole characters (stop strings being UTF-8 themselves).
class StopStrings {
 public:
  StopStrings() = default;  // nothing ever stops
  // `stops` passed validation. With `keep_match` the stop string itself is part of the output.
  explicit StopStrings(std::vector<std::string> stops, bool keep_match = false);

  // Takes the next piece; returns what is now certain to be output. After a match everything further is
  // swallowed.
  std::string push(std::string_view piece);

  // A match never spans two blocks of text: releases what was held back and starts afresh. The end of the
  // stream is the end of its last block.
  std::string end_block();

  [[nodiscard]] bool stopped() const { return matched_ != kNone; }
  // The stop string that matched; only when stopped(). Valid as long as this object.
  [[nodiscard]] const std::string& matched() const { return patterns_[matched_].text; }
  // Bytes held back because they may begin a stop string.
  [[nodiscard]] std::size_t held_bytes() const { return held_.size(); }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Pattern {
    std::string text;
    std::vector<std::size_t>
        fallback;             // [n]: longest proper prefix of text that is a suffix of its first n + 1 bytes
    std::size_t matched = 0;  // bytes of text that the stream currently ends with
  };

  [[nodiscard]] static Pattern compile(std::string text);
  static bool advance(Pattern& pattern, char byte);
  [[nodiscard]] std::size_t longest_completed(char byte);
  [[nodiscard]] std::size_t longest_beginning() const;
  void cut_at(std::size_t pattern_idx);

  std::vector<Pattern> patterns_;
  std::string held_;
  std::size_t matched_ = kNone;  // index of the pattern that stopped the stream
  bool keep_match_ = false;
};

}  // namespace inkstone::text
