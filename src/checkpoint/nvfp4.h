// SPDX-License-Identifier: Apache-2.0
// checkpoint/nvfp4.h - BF16 weights to NVFP4 codes by the amax rules (`spec/checkpoint.md` 5).
#pragma once

#include <cstdint>
#include <span>

#include "tensor/scalar_types.h"

namespace inkstone::checkpoint {

// The largest magnitude; NaN where one of the values is NaN.
float largest_magnitude(std::span<const BFloat16> values);

// amax / (448 * 6): the largest weight of the bank gets block scale 448 and code 6. 1 for a bank of zeros.
float second_level_scale(float amax);

// One row of n weights, n a multiple of 16: n / 2 bytes of codes (even column in the low nibble) and n / 16
// E4M3 scales. A block's scale is its amax / 6 in units of `scale2`, rounded to nearest; each code is the
// nearest under that scale. A block whose scale rounds to 0 gets codes 0.
void encode_row(std::span<const BFloat16> row, float scale2, std::span<std::uint8_t> codes,
                std::span<std::uint8_t> scales);

}  // namespace inkstone::checkpoint
