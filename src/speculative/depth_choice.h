// SPDX-License-Identifier: Apache-2.0
// speculative/depth_choice.h - `--speculate auto`: how many drafts a sequence asks for, from measured
// acceptance and measured times (speculative/cost_estimate.h).
#pragma once

#include <array>
#include <cstdint>

#include "speculative/acceptance.h"

namespace inkstone::speculative {

// What a round costs one sequence, its share of the step, by the number of its drafts.
struct RoundCost {
  std::array<double, kMaxDepth + 1> verify_us{};
  std::array<double, kMaxDepth + 1> draft_us{};
};

// Expected tokens of a round, by the number of its drafts.
using RoundTokens = std::array<double, kMaxDepth + 1>;
RoundTokens expected_round_tokens(const AcceptanceEstimate& estimate);

// Expected tokens per microsecond of rounds that draft so deep.
double round_rate(const RoundTokens& tokens, const RoundCost& cost, std::int64_t depth);

// The depth in 0 .. max_depth with the most expected tokens per microsecond, the smaller one of equals.
std::int64_t choose_depth(const RoundTokens& tokens, const RoundCost& cost, std::int64_t max_depth);

}  // namespace inkstone::speculative
