// SPDX-License-Identifier: Apache-2.0
// checkpoint/vision_plan.h - how the stages of the vision tower fold a patch, read off its weights
// (`spec/model.md` 12.1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "tensor/tensor_view.h"

namespace inkstone::checkpoint {

// Cells that one stage joins: `time` frames of a square of `side` x `side`.
struct VisionFold {
  std::int64_t time = 1;
  std::int64_t side = 1;
};

// `linear`: the shapes [out, in] of the stages' matrices, in order. in = out of the stage before (channels
// for the first) * time * side^2; only the last stage folds time. Together they must fold exactly one patch.
Result<std::vector<VisionFold>> plan_vision_folds(const VisionConfig& vision, std::span<const Shape> linear);

}  // namespace inkstone::checkpoint
