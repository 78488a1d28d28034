// SPDX-License-Identifier: Apache-2.0
// backends/cuda/primitives/nvfp4_bits.h - E2M1 codes to BF16 bit patterns, for host and device.
#pragma once

#include <cstdint>

#include "backends/cuda/primitives/host_device.h"

namespace inkstone::cuda {

// What the patterns of code_pair_bits lack: value = pattern * 2^126.
inline constexpr float kCodeUnit = 0x1p126F;

// Columns j and j + 4 of eight consecutive codes, as a pair of BF16 with column j in the lower half: these
// two lie 16 bits apart already. A code's three magnitude bits, shifted to the top of the mantissa (bit 6),
// are its value times 2^-126, subnormal included; its sign goes to bit 15. One product does both shifts for
// both codes, on another unit than the masks.
INK_HOST_DEVICE constexpr std::uint32_t code_pair_bits(std::uint32_t codes, int j) {
  const std::uint32_t word = j < 2 ? codes : codes >> 8;
  const std::uint32_t pair = j % 2 == 0 ? (word & 0x000f000fU) * 0x1040U : (word & 0x00f000f0U) * 0x104U;
  return pair & 0x81c081c0U;
}

}  // namespace inkstone::cuda
