// SPDX-License-Identifier: Apache-2.0
#include "ops/noise.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

namespace inkstone::ops {
namespace {

std::array<std::uint32_t, 4> words_of(const NoiseBlock& block) { return std::to_array(block.words); }

using Words = std::array<std::uint32_t, 4>;

// Known answers that the generator's authors publish with it.
TEST(Noise, IsTheKnownGenerator) {
  constexpr std::uint32_t kOnes = 0xffffffffU;
  EXPECT_EQ(words_of(philox4x32({}, 0, 0)), (Words{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(words_of(philox4x32({{kOnes, kOnes, kOnes, kOnes}}, kOnes, kOnes)),
            (Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(
      words_of(philox4x32({{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}}, 0xa4093822U, 0x299f31d0U)),
      (Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(Noise, IsKnownAtCompileTime) {
  static_assert(philox4x32({}, 0, 0).words[0] == 0x6627e8d5U);
  static_assert(noise_uniform({}, 0, 0x80000000U) == 0.5F);
}

TEST(Noise, DependsOnEveryPartOfItsKey) {
  const NoiseKey key{0x100000002U, 3, 4};
  std::set<Words> seen{words_of(noise_block(key, 5, 0))};
  seen.insert(words_of(noise_block({0x100000003U, 3, 4}, 5, 0)));
  seen.insert(words_of(noise_block({0x200000002U, 3, 4}, 5, 0)));
  seen.insert(words_of(noise_block({0x100000002U, 2, 4}, 5, 0)));
  seen.insert(words_of(noise_block({0x100000002U, 3, 5}, 5, 0)));
  seen.insert(words_of(noise_block(key, 6, 0)));
  seen.insert(words_of(noise_block(key, 5, 1)));
  EXPECT_EQ(seen.size(), 7U);
}

TEST(Noise, StaysWithinItsBounds) {
  for (const std::uint32_t word :
       {0U, 1U, kRefineBelow - 1, kRefineBelow, 0x7fffffffU, 0xfffffffeU, 0xffffffffU}) {
    for (std::uint32_t id = 0; id < 64; ++id) {
      const float uniform = noise_uniform({7, 0, 1}, id, word);
      EXPECT_GT(uniform, 0x1p-66F);
      EXPECT_LT(uniform, 1.0F);
      const float gumbel = -std::log(-std::log1p(-uniform));
      EXPECT_TRUE(std::isfinite(gumbel));
      EXPECT_LT(gumbel, kMaxNoise);
    }
  }
}

// Without refinement the words 0..4095 would give 4096 values to all ids.
TEST(Noise, RefinesTheLargestNoises) {
  std::set<float> seen;
  for (std::uint32_t id = 0; id < 1000; ++id) seen.insert(noise_uniform({7, 0, 1}, id, 0));
  EXPECT_GT(seen.size(), 990U);
  EXPECT_LE(*seen.rbegin(), 0x1p-32F);
}

TEST(Noise, IsUniform) {
  double sum = 0;
  double squares = 0;
  constexpr std::uint32_t kBlocks = 25000;
  for (std::uint32_t quad = 0; quad < kBlocks; ++quad) {
    const NoiseBlock block = noise_block({1, 0, 0}, quad, 0);
    for (std::uint32_t i = 0; i < 4; ++i) {
      const double uniform = noise_uniform({1, 0, 0}, quad * 4 + i, block.words[i]);
      sum += uniform;
      squares += uniform * uniform;
    }
  }
  // Five standard deviations of the means of 10^5 uniforms and of their squares: 5 * sqrt(1/12) / 316, 5 *
  // sqrt(4/45) / 316.
  EXPECT_NEAR(sum / (4.0 * kBlocks), 0.5, 0.0046);
  EXPECT_NEAR(squares / (4.0 * kBlocks), 1.0 / 3, 0.0048);
}

}  // namespace
}  // namespace inkstone::ops
