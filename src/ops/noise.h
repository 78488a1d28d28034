// SPDX-License-Identifier: Apache-2.0
// ops/noise.h - the random numbers of sampling: a pure function of (seed, choice, position, token id), so
// that a draw depends on nothing else and a draft and its verification see the same noise. Host and device
// compile this header.
#pragma once

#include <cstdint>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define INK_HOST_DEVICE __host__ __device__
#else
#define INK_HOST_DEVICE
#endif

namespace inkstone::ops {

struct NoiseKey {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;    // which of the n answers of one request
  std::uint32_t position = 0;  // of the token being drawn: tokens of its sequence before it, prompt included
};

struct NoiseBlock {
  std::uint32_t words[4] = {};
};

// Philox4x32 with ten rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC
// 2011).
INK_HOST_DEVICE constexpr NoiseBlock philox4x32(NoiseBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter.words[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter.words[2];
    const auto high0 = static_cast<std::uint32_t>(product0 >> 32);
    const auto high1 = static_cast<std::uint32_t>(product1 >> 32);
    counter = {{high1 ^ counter.words[1] ^ key0, static_cast<std::uint32_t>(product1),
                high0 ^ counter.words[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

// Counter words: token id / 4, position, choice, stream. Stream 0 holds the words of four consecutive ids,
// stream 1 their refinements.
INK_HOST_DEVICE constexpr NoiseBlock noise_block(const NoiseKey& key, std::uint32_t id_quad,
                                                 std::uint32_t stream) {
  return philox4x32({{id_quad, key.position, key.choice, stream}}, static_cast<std::uint32_t>(key.seed),
                    static_cast<std::uint32_t>(key.seed >> 32));
}

// Words below this are refined by a second one: the large noises decide which token wins, and 32 bits would
// give the tokens of a 200,000-id vocabulary only a handful of distinct values there. One token in a million
// pays for it.
inline constexpr std::uint32_t kRefineBelow = 1U << 12;

// Uniform in (0, 1), small where the noise is large. Exact in IEEE single precision: one conversion, one
// addition, one product with a power of two; no step may be fused or reordered. Smallest value 2^-65, largest
// 1 - 2^-24.
INK_HOST_DEVICE constexpr float noise_uniform(const NoiseKey& key, std::uint32_t id, std::uint32_t word) {
  if (word < kRefineBelow) {
    const std::uint32_t refinement = noise_block(key, id / 4, 1).words[id % 4];
    return (static_cast<float>((std::uint64_t{word} << 32) | refinement) + 0.5F) * 0x1p-64F;
  }
  const float uniform = (static_cast<float>(word) + 0.5F) * 0x1p-32F;
  return uniform < 1.0F ? uniform : 0x1.fffffep-1F;
}

// The noise itself is the Gumbel variable g = -log(-log1p(-v)) of v = noise_uniform, both logarithms in
// single precision within 2 units in the last place; so backends agree on a draw unless two scores are that
// close. Callers bring their own logarithms. Bounds that allow skipping: g <= -log(v) <= (leading zeros of
// word + 1) * log 2, and g < kMaxNoise.
inline constexpr float kMaxNoise = 45.1F;

}  // namespace inkstone::ops
