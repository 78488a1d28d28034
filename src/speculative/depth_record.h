// SPDX-License-Identifier: Apache-2.0
// speculative/depth_record.h - what answers brought that kept one depth from their first round to their last.
#pragma once

#include <array>
#include <cstdint>

#include "speculative/acceptance.h"
#include "speculative/depth_choice.h"

namespace inkstone::speculative {

// Rates of acceptance tell what a round brings when rounds may begin anywhere. In short answers they do not:
// four drafts end an answer of ten tokens in two rounds where three need three, and no rate says so. Whole
// answers do. Not thread-safe.
class DepthRecord {
 public:
  // An answer of so many rounds, all `depth` deep.
  void observe(std::int64_t depth, std::int64_t rounds, std::int64_t tokens);

  // Expected tokens of a round of each depth: of rates until answers say otherwise.
  [[nodiscard]] RoundTokens tokens(const AcceptanceEstimate& estimate) const;

 private:
  struct Sums {
    double rounds = 0;
    double tokens = 0;
  };
  std::array<Sums, kMaxDepth + 1> sums_;
};

}  // namespace inkstone::speculative
