// SPDX-License-Identifier: Apache-2.0
// backends/cpu/expert_plan.h - how a model that is larger than the memory is spread, and what speed to
// expect.
#pragma once

#include <cstdint>

#include "base/result.h"

namespace inkstone::cpu {

struct ExpertPlanInput {
  std::int64_t memory_limit_bytes = 0;
  std::int64_t fixed_bytes = 0;        // weights that every token reads
  std::int64_t other_bytes = 0;        // state and activations
  std::int64_t expert_bytes = 0;       // of the largest expert
  std::int64_t num_experts = 0;        // routed, all layers together
  std::int64_t experts_per_token = 0;  // routed, all layers together
  double memory_bytes_per_second = 0;  // measured
  double disk_bytes_per_second = 0;    // measured
};

struct ExpertPlan {
  std::int64_t cache_bytes = 0;
  double hit_share = 0;  // of a uniform choice
  double tokens_per_second = 0;
};

// kTooLarge with both numbers when not even one expert has room.
Result<ExpertPlan> plan_experts(const ExpertPlanInput& input);

}  // namespace inkstone::cpu
