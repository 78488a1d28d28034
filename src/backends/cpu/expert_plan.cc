// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/expert_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace inkstone::cpu {

Result<ExpertPlan> plan_experts(const ExpertPlanInput& in) {
  ExpertPlan plan;
  plan.cache_bytes = in.memory_limit_bytes - in.fixed_bytes - in.other_bytes;
  if (plan.cache_bytes < in.expert_bytes) {
    return fail(
        ErrorKind::kTooLarge,
        fmt::format(
            "a memory limit of {} bytes: the weights that every token reads, state and one expert take {}",
            in.memory_limit_bytes, in.fixed_bytes + in.other_bytes + in.expert_bytes));
  }
  const std::int64_t all = in.num_experts * in.expert_bytes;
  plan.hit_share =
      all == 0 ? 1.0 : std::min(1.0, static_cast<double>(plan.cache_bytes) / static_cast<double>(all));
  const auto routed = static_cast<double>(in.experts_per_token * in.expert_bytes);
  // Experts that are read come from the disk while those before them are computed: the longer of the two
  // counts.
  const double fixed_seconds = static_cast<double>(in.fixed_bytes) / in.memory_bytes_per_second;
  const double routed_seconds =
      std::max(routed / in.memory_bytes_per_second, routed * (1 - plan.hit_share) / in.disk_bytes_per_second);
  plan.tokens_per_second = 1 / (fixed_seconds + routed_seconds);
  return plan;
}

}  // namespace inkstone::cpu
