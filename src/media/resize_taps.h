// SPDX-License-Identifier: Apache-2.0
// media/resize_taps.h - for each pixel of a resized axis: which source pixels it mixes, with which weights.
#pragma once

#include <cstdint>
#include <vector>

namespace inkstone::media {

struct ResizeTaps {
  static constexpr int kFractionBits = 22;

  std::vector<std::int64_t> first;    // [out] first source pixel
  std::vector<std::int64_t> count;    // [out] source pixels
  std::vector<std::int32_t> weights;  // [out][stride], the sum of each row is near 2^22
  std::int64_t stride = 0;

  [[nodiscard]] const std::int32_t* row(std::int64_t i) const { return weights.data() + i * stride; }
};

// Windowed sinc over three lobes, widened when the axis shrinks; source `in` pixels, result `out`.
ResizeTaps lanczos_taps(std::int64_t in, std::int64_t out);

}  // namespace inkstone::media
