// SPDX-License-Identifier: Apache-2.0
// app/loading/memory_limit.h - `--memory-limit`: how much of the memory the experts get, said before anything
// is read.
#pragma once

#include <optional>
#include <string>

#include "app/options.h"
#include "backends/cpu/expert_plan.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace inkstone::app {

struct MemoryPlan {
  cpu::ExpertPlan experts;
  double disk_bytes_per_second = 0;  // measured, in pieces as large as the cache's
};

// Without a limit nothing happens, and there is no plan. Otherwise measures memory and disk for a moment,
// logs the plan with the expected tokens/s, and tells the backend. kUnsupported for backends other than the
// CPU's, kTooLarge where not even one expert has room beside what every token reads.
Result<std::optional<MemoryPlan>> limit_memory(const CommonOptions& options, const std::string& folder,
                                               const checkpoint::Checkpoint& checkpoint,
                                               const model::ModelWeights& weights, ops::Backend& backend);

}  // namespace inkstone::app
