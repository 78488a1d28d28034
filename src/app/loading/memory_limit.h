// SPDX-License-Identifier: Apache-2.0
// app/loading/memory_limit.h - `--memory-limit`: how much of the memory the experts get, said before anything
// is read.
#pragma once

#include <string>

#include "app/options.h"
#include "base/result.h"
#include "checkpoint/model_config.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace inkstone::app {

// Without a limit nothing happens. Otherwise measures memory and disk for a moment, logs the plan with the
// expected tokens/s, and tells the backend. kUnsupported for backends other than the CPU's, kTooLarge where
// not even one expert has room beside what every token reads.
Status limit_memory(const CommonOptions& options, const std::string& folder,
                    const checkpoint::ModelConfig& config, const model::ModelWeights& weights,
                    ops::Backend& backend);

}  // namespace inkstone::app
