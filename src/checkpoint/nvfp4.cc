// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/nvfp4.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace inkstone::checkpoint {
namespace {

constexpr std::size_t kBlock = 16;
constexpr float kLargestCode = 6;
constexpr float kLargestScale = 448;

// The nearest code under `step`, of two equally near ones the smaller: what the vendor's quantiser does, bit
// for bit (the shipped NVFP4 twin of the mini has exactly these codes). The quotient is rounded to f32 like
// there, so a weight within one rounding of a midpoint may take the other neighbour.
std::uint8_t nearest_code(BFloat16 weight, float step) {
  const float quotient = to_float(BFloat16{static_cast<std::uint16_t>(weight.bits & 0x7fff)}) / step;
  int code = 0;
  for (const float midpoint : {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F}) code += quotient > midpoint;
  return static_cast<std::uint8_t>(code | ((weight.bits >> 15) << 3));
}

std::uint8_t encode_block(std::span<const BFloat16> block, float scale2, std::uint8_t* codes) {
  const std::uint8_t scale = float_to_e4m3(largest_magnitude(block) / kLargestCode / scale2);
  const float step = e4m3_to_float(scale) * scale2;
  for (std::size_t i = 0; i < kBlock; i += 2) {
    const std::uint8_t low = step > 0 ? nearest_code(block[i], step) : 0;
    const std::uint8_t high = step > 0 ? nearest_code(block[i + 1], step) : 0;
    codes[i / 2] = static_cast<std::uint8_t>(low | (high << 4));
  }
  return scale;
}

}  // namespace

float largest_magnitude(std::span<const BFloat16> values) {
  // The order of magnitudes is the order of their bits, and NaN lies above infinity.
  std::uint16_t largest = 0;
  for (const BFloat16 value : values) largest = std::max<std::uint16_t>(largest, value.bits & 0x7fff);
  return to_float(BFloat16{largest});
}

float second_level_scale(float amax) {
  // Below this the quotient would leave the normal numbers and lose the bits that the scales rely on.
  const float scale = amax / (kLargestScale * kLargestCode);
  return scale >= std::numeric_limits<float>::min() ? scale : 1.0F;
}

void encode_row(std::span<const BFloat16> row, float scale2, std::span<std::uint8_t> codes,
                std::span<std::uint8_t> scales) {
  INK_CHECK(row.size() % kBlock == 0 && codes.size() * 2 == row.size() &&
            scales.size() * kBlock == row.size());
  for (std::size_t block = 0; block < scales.size(); ++block)
    scales[block] =
        encode_block(row.subspan(block * kBlock, kBlock), scale2, codes.data() + block * kBlock / 2);
}

}  // namespace inkstone::checkpoint
