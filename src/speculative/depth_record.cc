// SPDX-License-Identifier: Apache-2.0
#include "speculative/depth_record.h"

namespace inkstone::speculative {
namespace {

constexpr double kMemory = 1000;     // answers of any depth that count
constexpr double kPriorRounds = 20;  // after so many an answer's word counts as much as that of the rates

}  // namespace

void DepthRecord::observe(std::int64_t depth, std::int64_t rounds, std::int64_t tokens) {
  for (Sums& sums : sums_) {
    sums.rounds *= 1 - 1 / kMemory;
    sums.tokens *= 1 - 1 / kMemory;
  }
  Sums& sums = sums_[static_cast<std::size_t>(depth)];
  sums.rounds += static_cast<double>(rounds);
  sums.tokens += static_cast<double>(tokens);
}

RoundTokens DepthRecord::tokens(const AcceptanceEstimate& estimate) const {
  RoundTokens tokens = expected_round_tokens(estimate);
  for (std::size_t depth = 0; depth < tokens.size(); ++depth) {
    const Sums& sums = sums_[depth];
    tokens[depth] = (sums.tokens + kPriorRounds * tokens[depth]) / (sums.rounds + kPriorRounds);
  }
  return tokens;
}

}  // namespace inkstone::speculative
