// SPDX-License-Identifier: Apache-2.0
// media/dmel.h - log-mel values to levels, what the audio tower looks up (`multimodal.md` 3.4).
#pragma once

#include <cstdint>
#include <span>

namespace inkstone::media {

// Levels lie evenly from `min` to `max`, ends included.
struct DmelGrid {
  std::int64_t levels = 16;
  double min = -7.0;
  double max = 2.0;
};

// The nearest level, the lower of two that are equally near; all in double, level i at min + step * i.
std::int32_t dmel_level(float log_mel, const DmelGrid& grid);

// levels[i] = dmel_level(log_mel[i]).
void quantise(std::span<const float> log_mel, const DmelGrid& grid, std::span<std::int32_t> levels);

}  // namespace inkstone::media
