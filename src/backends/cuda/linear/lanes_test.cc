// SPDX-License-Identifier: Apache-2.0
// The index arithmetic of the step products, followed on the host: what every lane would decode and multiply.
#include "backends/cuda/linear/lanes.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <random>
#include <vector>

#include "backends/cuda/primitives/nvfp4_bits.h"
#include "tensor/scalar_types.h"

namespace inkstone::cuda {
namespace {

float value_of(std::uint32_t pair, int half) {
  return to_float(BFloat16{static_cast<std::uint16_t>(pair >> (16 * half))}) * kCodeUnit;
}

TEST(Nvfp4Bits, DecodeEveryCodeAtEveryPlaceAmongAnyNeighbours) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 4096; ++trial) {
    const auto codes = static_cast<std::uint32_t>(random());
    for (int column = 0; column < 8; ++column) {
      const float expected = e2m1_to_float(static_cast<std::uint8_t>(codes >> (4 * column) & 0xf));
      const float decoded = value_of(code_pair_bits(codes, column % 4), column / 4);
      ASSERT_EQ(std::bit_cast<std::uint32_t>(decoded), std::bit_cast<std::uint32_t>(expected))
          << codes << " column " << column;
    }
  }
}

TEST(Lanes, HoldEveryColumnOfATurnOnce) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kNvfp4, WeightFormat::kNvfp4Narrow}) {
    std::array<int, kTurn> held{};
    for (int lane = 0; lane < 4; ++lane) {
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        for (int i = 0; i < kColumnsPerChunk; ++i)
          ++held[static_cast<std::size_t>(chunk_column(format, lane, chunk) + i)];
      }
    }
    for (const int times : held) EXPECT_EQ(times, 1);
  }
}

// A row of codes and scales, read as the wide format reads it: 16 bytes of codes and two scales a lane.
TEST(Lanes, GiveWideNvfp4TheCodesAndScalesOfItsColumns) {
  std::mt19937 random(11);
  std::array<std::uint8_t, kTurn / 2> codes{};
  std::array<std::uint8_t, kTurn / 16> scales{};
  for (std::uint8_t& pair : codes) pair = static_cast<std::uint8_t>(random());
  for (std::uint8_t& scale : scales) scale = static_cast<std::uint8_t>(random() % 0x7f);
  for (int lane = 0; lane < 4; ++lane) {
    const int first = chunk_column(WeightFormat::kNvfp4, lane, 0);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      std::uint32_t word = 0;
      for (int byte = 0; byte < 4; ++byte)
        word |= std::uint32_t{codes[static_cast<std::size_t>(first / 2 + 4 * chunk + byte)]} << (8 * byte);
      const int column = chunk_column(WeightFormat::kNvfp4, lane, chunk);
      const std::uint8_t scale = scales[static_cast<std::size_t>(first / 16 + chunk_scale(chunk))];
      EXPECT_EQ(scale, scales[static_cast<std::size_t>(column / 16)]);
      for (int i = 0; i < kColumnsPerChunk; ++i) {
        const std::uint8_t stored = codes[static_cast<std::size_t>((column + i) / 2)];
        EXPECT_EQ(value_of(code_pair_bits(word, i % 4), i / 4),
                  e2m1_to_float(static_cast<std::uint8_t>(stored >> (4 * (i % 2)))));
      }
    }
  }
}

}  // namespace
}  // namespace inkstone::cuda
