// SPDX-License-Identifier: Apache-2.0
#include "media/dmel.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace inkstone::media {

std::int32_t dmel_level(float log_mel, const DmelGrid& grid) {
  const double value = std::clamp(static_cast<double>(log_mel), grid.min, grid.max);
  const double step = (grid.max - grid.min) / static_cast<double>(grid.levels - 1);
  const auto distance = [&](std::int64_t i) {
    return std::fabs(value - (grid.min + step * static_cast<double>(i)));
  };
  // The nearest is one of three around the rounded quotient; comparing distances decides ties as the rule
  // does.
  const auto guess = static_cast<std::int64_t>((value - grid.min) / step);
  std::int64_t best = std::max<std::int64_t>(0, guess - 1);
  for (std::int64_t i = best + 1; i <= std::min(grid.levels - 1, guess + 2); ++i) {
    if (distance(i) < distance(best)) best = i;
  }
  return static_cast<std::int32_t>(best);
}

void quantise(std::span<const float> log_mel, const DmelGrid& grid, std::span<std::int32_t> levels) {
  INK_CHECK(log_mel.size() == levels.size());
  std::transform(log_mel.begin(), log_mel.end(), levels.begin(),
                 [&](float value) { return dmel_level(value, grid); });
}

}  // namespace inkstone::media
