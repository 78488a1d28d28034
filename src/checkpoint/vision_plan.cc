// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/vision_plan.h"

#include <fmt/format.h>

#include <cmath>

namespace inkstone::checkpoint {
namespace {

// The side of a square of `area` cells, 0 when there is none.
std::int64_t side_of(std::int64_t area) {
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(area))));
  return side > 0 && side * side == area ? side : 0;
}

}  // namespace

Result<std::vector<VisionFold>> plan_vision_folds(const VisionConfig& vision, std::span<const Shape> linear) {
  std::vector<VisionFold> folds;
  std::int64_t width = vision.channels;
  std::int64_t patch = vision.patch_size;
  for (std::size_t i = 0; i < linear.size(); ++i) {
    const std::int64_t time = i + 1 == linear.size() ? vision.temporal_patch_size : 1;
    const std::int64_t cells = width > 0 && linear[i][1] % width == 0 ? linear[i][1] / width : 0;
    const std::int64_t side = cells % time == 0 ? side_of(cells / time) : 0;
    if (side == 0 || patch % side != 0)
      return fail(ErrorKind::kCorrupt,
                  fmt::format("model.visual.layers.linear_{}.weight {} folds no square of {} channels", i,
                              to_string(linear[i]), width));
    folds.push_back({time, side});
    patch /= side;
    width = linear[i][0];
  }
  if (patch != 1)
    return fail(
        ErrorKind::kCorrupt,
        fmt::format(
            "the vision tower's layers fold {0} of {1} rows of a patch, config.json says patch_size {1}",
            vision.patch_size / patch, vision.patch_size));
  return folds;
}

}  // namespace inkstone::checkpoint
