// SPDX-License-Identifier: Apache-2.0
// backends/cuda/primitives/nvfp4_bits.h - E2M1 codes to BF16 bit patterns, for host and device.
#pragma once

#include <cstdint>

#include "backends/cuda/primitives/host_device.h"

namespace inkstone::cuda {

// What the patterns of code_pair_bits lack: value = pattern * 2^126.
inline constexpr float kCodeUnit = 0x1p126F;

// Columns 2j and 2j + 1 of eight consecutive codes, as a pair of BF16 with the even column in the lower half.
// A code's three magnitude bits, shifted to the top of the mantissa, are its value times 2^-126, subnormal
// included; its sign goes to the top.
INK_HOST_DEVICE constexpr std::uint32_t code_pair_bits(std::uint32_t codes, int j) {
  const std::uint32_t byte = codes >> (8 * j) & 0xffU;
  const std::uint32_t spread = byte | byte << 12;
  return (spread & 0x00070007U) << 6 | (spread & 0x00080008U) << 12;
}

}  // namespace inkstone::cuda
