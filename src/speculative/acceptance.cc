// SPDX-License-Identifier: Apache-2.0
#include "speculative/acceptance.h"

#include <algorithm>

#include "base/check.h"

namespace inkstone::speculative {

std::int64_t num_accepted(std::span<const std::int32_t> drafts, std::span<const std::int32_t> drawn) {
  INK_CHECK(drawn.size() == drafts.size() + 1, "one draw behind each row of the verify step");
  std::size_t accepted = 0;
  while (accepted < drafts.size() && drafts[accepted] == drawn[accepted]) ++accepted;
  return static_cast<std::int64_t>(accepted);
}

AcceptanceEstimate AcceptanceEstimate::like(const AcceptanceEstimate& others) {
  AcceptanceEstimate estimate;
  estimate.rates_ = others.rates_;
  for (std::size_t i = 0; i < estimate.weights_.size(); ++i)
    estimate.weights_[i] = std::min(others.weights_[i], kLikeWeight);
  return estimate;
}

void AcceptanceEstimate::observe_at(std::int64_t depth, double accepted) {
  const auto i = static_cast<std::size_t>(depth);
  rates_[i] += (accepted - rates_[i]) / (weights_[i] + 1);
  weights_[i] = std::min(weights_[i] + 1, memory_);
}

double AcceptanceEstimate::rate(std::int64_t depth) const {
  double rate = kPrior;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(depth); ++i) {
    // Less of it the more was seen, and in the end nothing.
    const double prior_weight = kPriorWeight * (1 - weights_[i] / memory_);
    rate = (weights_[i] * rates_[i] + prior_weight * rate) / (weights_[i] + prior_weight);
  }
  return rate;
}

void AcceptanceEstimate::observe(std::int64_t drafted, std::int64_t accepted) {
  INK_CHECK(accepted >= 0 && accepted <= drafted && drafted <= kMaxDepth, "no more accepted than drafted");
  for (std::int64_t i = 0; i < accepted; ++i) observe_at(i, 1);
  // Drafts behind the first rejected one say nothing about their depth.
  if (accepted < drafted) observe_at(accepted, 0);
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
