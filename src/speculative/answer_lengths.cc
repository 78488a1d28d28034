// SPDX-License-Identifier: Apache-2.0
#include "speculative/answer_lengths.h"

#include <algorithm>
#include <vector>

namespace inkstone::speculative {
namespace {

constexpr std::int64_t kLongest = 128;  // beyond, a round brings what the rates say

}  // namespace

void expect_rounds(const AcceptanceEstimate& estimate, std::int64_t depth, std::span<double> rounds) {
  std::array<double, kMaxDepth + 1> ends{};  // how likely a round gives i + 1 tokens
  double reached = 1;
  for (std::int64_t i = 0; i < depth; ++i) {
    ends[static_cast<std::size_t>(i)] = reached * (1 - estimate.rate(i));
    reached *= estimate.rate(i);
  }
  ends[static_cast<std::size_t>(depth)] = reached;
  for (std::size_t length = 0; length < rounds.size(); ++length) {
    rounds[length] = length == 0 ? 0 : 1;
    for (std::size_t i = 0; i < ends.size() && i + 1 < length; ++i)
      rounds[length] += ends[i] * rounds[length - i - 1];
  }
}

void AnswerLengths::observe(std::int64_t length, const AcceptanceEstimate& estimate) {
  if (length <= 0) return;
  lengths_[static_cast<std::size_t>(answers_++) % kAnswers] = length;
  const auto known = std::span(lengths_).first(std::min(static_cast<std::size_t>(answers_), kAnswers));
  std::array<double, kLongest + 1> all{};
  const auto rounds =
      std::span(all).first(static_cast<std::size_t>(std::min(std::ranges::max(known), kLongest)) + 1);
  const RoundTokens by_rates = expected_round_tokens(estimate);
  for (std::size_t depth = 0; depth < factors_.size(); ++depth) {
    expect_rounds(estimate, static_cast<std::int64_t>(depth), rounds);
    double tokens = 0;
    double taken = 0;
    for (const std::int64_t one : known) {
      tokens += static_cast<double>(one);
      taken += rounds[static_cast<std::size_t>(std::min(one, kLongest))];
      taken += static_cast<double>(std::max<std::int64_t>(0, one - kLongest)) / by_rates[depth];
    }
    factors_[depth] = tokens / taken / by_rates[depth];
  }
}

RoundTokens AnswerLengths::corrected(RoundTokens tokens) const {
  for (std::size_t depth = 0; depth < tokens.size(); ++depth) tokens[depth] *= factors_[depth];
  return tokens;
}

}  // namespace inkstone::speculative
