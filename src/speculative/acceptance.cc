// SPDX-License-Identifier: Apache-2.0
#include "speculative/acceptance.h"

#include "base/check.h"

namespace inkstone::speculative {

std::int64_t num_accepted(std::span<const std::int32_t> drafts, std::span<const std::int32_t> drawn) {
  INK_CHECK(drawn.size() == drafts.size() + 1, "one draw behind each row of the verify step");
  std::size_t accepted = 0;
  while (accepted < drafts.size() && drafts[accepted] == drawn[accepted]) ++accepted;
  return static_cast<std::int64_t>(accepted);
}

void AcceptanceEstimate::observe(std::int64_t drafted, std::int64_t accepted) {
  INK_CHECK(accepted >= 0 && accepted <= drafted && drafted <= kMaxDepth, "no more accepted than drafted");
  for (std::int64_t i = 0; i < accepted; ++i) {
    double& rate = rates_[static_cast<std::size_t>(i)];
    rate += kStep * (1 - rate);
  }
  // Drafts behind the first rejected one say nothing about their depth.
  if (accepted < drafted) rates_[static_cast<std::size_t>(accepted)] *= 1 - kStep;
}

double expected_tokens(const AcceptanceEstimate& estimate, std::int64_t num_drafts) {
  double expected = 1;
  double reached = 1;
  for (std::int64_t i = 0; i < num_drafts; ++i) {
    reached *= estimate.rate(i);
    expected += reached;
  }
  return expected;
}

}  // namespace inkstone::speculative
