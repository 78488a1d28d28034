// SPDX-License-Identifier: Apache-2.0
// speculative/past_answers.h - what rounds of drafts bring in answers that end.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "speculative/acceptance.h"
#include "speculative/depth_choice.h"

namespace inkstone::speculative {

// What was seen of a draft of one token.
struct DraftedToken {
  enum class Outcome : std::int8_t { kRight, kWrong, kNotDrafted };
  Outcome outcome = Outcome::kNotDrafted;
  std::int8_t depth = 0;  // that drafted it, or would have
};

// Tokens of one answer behind its first one, which came with the prompt; the first kLongest of them.
class AnswerDrafts {
 public:
  static constexpr std::size_t kLongest = 512;
  // A round with `drafted` drafts, `right` of them right, has given so many tokens, at most right + 1.
  void add_round(std::int64_t drafted, std::int64_t right, std::int64_t emitted);
  [[nodiscard]] std::span<const DraftedToken> tokens() const { return tokens_; }

 private:
  std::vector<DraftedToken> tokens_;
};

// Rounds that the answer would be expected to take if all of them drafted so deep; of those that did, exactly
// what they took.
double expected_rounds(std::span<const DraftedToken> answer, const AcceptanceEstimate& estimate,
                       std::int64_t depth);

// Rates of acceptance tell what a round brings in the middle of a long text that is alike everywhere. But an
// answer ends, and its last round is cut: of nine tokens, four drafts a round make two rounds, three drafts
// three, five still two. And drafts are wrong where the text is hard, so a depth meets as many hard places
// as another, not as many a round. So the rounds are counted that the last answers would have taken at every
// depth. Not thread-safe.
class PastAnswers {
 public:
  // An answer has ended; `estimate`: of all answers.
  void observe(std::span<const DraftedToken> answer, const AcceptanceEstimate& estimate);
  // Tokens of a round by rates alone -> those of a round of answers like these.
  [[nodiscard]] RoundTokens corrected(RoundTokens tokens) const;
  // Rounds per answer; infinitely many before one has ended.
  [[nodiscard]] double rounds(std::int64_t depth) const { return rounds_[static_cast<std::size_t>(depth)]; }

 private:
  static constexpr std::size_t kAnswers = 64;
  struct Rounds {
    double tokens = 0;
    std::array<double, kMaxDepth + 1> rounds{};  // by depth
  };

  std::array<Rounds, kAnswers> answers_{};  // the last ones, in a ring
  std::size_t observed_ = 0;
  RoundTokens factors_ = filled(1);
  std::array<double, kMaxDepth + 1> rounds_ = filled(std::numeric_limits<double>::infinity());

  static std::array<double, kMaxDepth + 1> filled(double value) {
    std::array<double, kMaxDepth + 1> made{};
    made.fill(value);
    return made;
  }
};

}  // namespace inkstone::speculative
