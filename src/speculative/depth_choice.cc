// SPDX-License-Identifier: Apache-2.0
#include "speculative/depth_choice.h"

#include <algorithm>

namespace inkstone::speculative {

RoundTokens expected_round_tokens(const AcceptanceEstimate& estimate) {
  RoundTokens tokens{};
  for (std::size_t depth = 0; depth < tokens.size(); ++depth)
    tokens[depth] = expected_tokens(estimate, static_cast<std::int64_t>(depth));
  return tokens;
}

double round_rate(const RoundTokens& tokens, const RoundCost& cost, std::int64_t depth) {
  const auto i = static_cast<std::size_t>(depth);
  return tokens[i] / std::max(cost.verify_us[i] + cost.draft_us[i], 1e-9);
}

std::int64_t choose_depth(const RoundTokens& tokens, const RoundCost& cost, std::int64_t max_depth) {
  std::int64_t best = 0;
  double best_rate = 0;
  for (std::int64_t depth = 0; depth <= max_depth; ++depth) {
    const double rate = round_rate(tokens, cost, depth);
    if (rate > best_rate) {
      best_rate = rate;
      best = depth;
    }
  }
  return best;
}

}  // namespace inkstone::speculative
