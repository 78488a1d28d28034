// SPDX-License-Identifier: Apache-2.0
// speculative/answer_lengths.h - what rounds of drafts bring when answers are short.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "speculative/acceptance.h"
#include "speculative/depth_choice.h"

namespace inkstone::speculative {

// Rates of acceptance tell what a round brings in the middle of a long text. An answer ends, and its last
// round is cut: of nine tokens, four drafts a round make two rounds, three drafts three, five still two. So
// the lengths of the last answers are remembered, and the rounds that they take at every depth follow from
// them and the rates. Not thread-safe.
class AnswerLengths {
 public:
  // An answer has ended, so many tokens behind the first; `estimate`: of all answers.
  void observe(std::int64_t length, const AcceptanceEstimate& estimate);
  // Tokens of a round by rates alone -> those of a round of answers of these lengths.
  [[nodiscard]] RoundTokens corrected(RoundTokens tokens) const;

 private:
  static constexpr std::size_t kAnswers = 64;
  std::array<std::int64_t, kAnswers> lengths_{};  // the last ones, in a ring
  std::int64_t answers_ = 0;
  RoundTokens factors_ = ones();

  static RoundTokens ones() {
    RoundTokens made{};
    made.fill(1);
    return made;
  }
};

// Expected rounds of an answer of 0 .. length tokens that all draft so deep; the last round may be cut.
// rounds.size() - 1 is the longest length.
void expect_rounds(const AcceptanceEstimate& estimate, std::int64_t depth, std::span<double> rounds);

}  // namespace inkstone::speculative
