// SPDX-License-Identifier: Apache-2.0
// backends/cuda/sample/select.cuh - the border of top-k and top-p without sorting: four passes over eight
// bits of the values each, then the ids among equal values.
#pragma once

#include "backends/cuda/sample/block.cuh"

namespace inkstone::cuda {

// Floats in the order of their values.
__device__ inline std::uint32_t ordered_key(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Integer mass of a token, as ops/sample.h defines it.
__device__ inline std::uint64_t mass_of(float x) { return static_cast<std::uint64_t>(expf(x) * 0x1p40F); }

// A prefix of the order (x descending, id ascending): everything above `key`, and of the equal ones ids up to
// `id`.
struct Cut {
  std::uint32_t key = 0;
  std::int32_t id = INT_MAX;

  __device__ bool keeps(float x, std::int32_t token) const {
    const std::uint32_t own = ordered_key(x);
    return x != -INFINITY && (own > key || (own == key && token <= id));
  }
};

struct SelectShared {
  unsigned long long bins[256];
  unsigned long long remaining;  // weight still to reach below the bins already taken
  std::uint32_t prefix;
  bool reached;
  int of_warp[kSampleWarps];
};

// bins[bin] += weight for every lane that takes part; lanes of equal bins are added before, since a row's
// values crowd into few bins. Weights are below 2^41.
__device__ inline void add_to_bins(SelectShared& shared, bool takes_part, int bin, std::uint64_t weight) {
  const unsigned peers = __match_any_sync(kAllLanes, takes_part ? bin : -1);
  const auto low = __reduce_add_sync(peers, static_cast<unsigned>(weight & 0xfffffU));
  const auto high = __reduce_add_sync(peers, static_cast<unsigned>(weight >> 20));
  const bool leader = __ffs(static_cast<int>(peers)) - 1 == static_cast<int>(threadIdx.x % kWarpThreads);
  if (takes_part && leader) atomicAdd(&shared.bins[bin], (static_cast<unsigned long long>(high) << 20) + low);
}

// Sum of weight(x) over the tokens that `within` keeps. Weights are integers: the order of the sum is free.
template <class Weight>
__device__ std::uint64_t total_weight(const float* x, int count, const Cut& within, SelectShared& shared,
                                      const Weight& weight) {
  __syncthreads();  // earlier readers of the bins are done
  if (threadIdx.x == 0) shared.bins[0] = 0;
  __syncthreads();  // the sum starts at zero
  for (int base = 0; base < count; base += kSampleThreads) {
    const int id = base + static_cast<int>(threadIdx.x);
    const bool kept = id < count && within.keeps(x[id], id);
    add_to_bins(shared, kept, 0, kept ? weight(x[id]) : 0);
  }
  __syncthreads();  // the sum is complete
  return shared.bins[0];
}

// Takes bins from the largest values down until the weight is reached; its bin becomes part of the prefix.
__device__ inline void take_bins(SelectShared& shared, int shift) {
  unsigned long long sum = 0;
  for (int bin = 255; bin >= 0; --bin) {
    if (sum + shared.bins[bin] >= shared.remaining) {
      shared.remaining -= sum;
      shared.prefix |= static_cast<std::uint32_t>(bin) << shift;
      return;
    }
    sum += shared.bins[bin];
  }
  shared.reached = false;
}

// The id of the `wanted`-th token (from 1) in ascending order among those whose key is `key`.
__device__ inline std::int32_t nth_equal(const float* x, int count, const Cut& within, std::uint32_t key,
                                         int wanted, SelectShared& shared) {
  int before = 0;
  for (int base = 0; base < count; base += kSampleThreads) {
    const int id = base + static_cast<int>(threadIdx.x);
    const bool equal = id < count && within.keeps(x[id], id) && ordered_key(x[id]) == key;
    const unsigned lanes = __ballot_sync(kAllLanes, equal);
    const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
    __syncthreads();  // the last chunk's counts are read
    if (threadIdx.x % kWarpThreads == 0) shared.of_warp[warp] = __popc(lanes);
    __syncthreads();  // counts of this chunk are there
    int rank = before + __popc(lanes & ((1U << (threadIdx.x % kWarpThreads)) - 1)) + 1;
    for (int i = 0; i < kSampleWarps; ++i) {
      before += shared.of_warp[i];
      if (i < warp) rank += shared.of_warp[i];
    }
    const Scored found = block_first(equal && rank == wanted ? Scored{0, id} : Scored{});
    if (found.id != INT_MAX) return found.id;
  }
  return INT_MAX;
}

// The shortest prefix of what `within` keeps whose weight is at least `amount` (at least 1); all of it if
// there is none.
template <class Weight>
__device__ Cut select_prefix(const float* x, int count, const Cut& within, std::uint64_t amount,
                             SelectShared& shared, const Weight& weight) {
  __syncthreads();  // earlier readers are done
  if (threadIdx.x == 0) {
    shared.remaining = amount;
    shared.prefix = 0;
    shared.reached = true;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();  // the prefix is known, the bins are read
    if (threadIdx.x < 256) shared.bins[threadIdx.x] = 0;
    const std::uint32_t prefix = shared.prefix;
    __syncthreads();  // bins are empty
    for (int base = 0; base < count; base += kSampleThreads) {
      const int id = base + static_cast<int>(threadIdx.x);
      const bool kept = id < count && within.keeps(x[id], id);
      const std::uint32_t key = kept ? ordered_key(x[id]) : 0;
      const bool takes_part = kept && (shift == 24 || (key >> (shift + 8)) == (prefix >> (shift + 8)));
      add_to_bins(shared, takes_part, static_cast<int>(key >> shift & 0xffU), takes_part ? weight(x[id]) : 0);
    }
    __syncthreads();  // bins are complete
    if (threadIdx.x == 0) take_bins(shared, shift);
    __syncthreads();  // the decision is there
    if (!shared.reached) return within;
  }
  // Equal values weigh the same: how many of them are needed follows from what remains.
  const std::uint32_t key = shared.prefix;
  const std::uint32_t bits = (key & 0x80000000U) != 0 ? key & 0x7fffffffU : ~key;
  const std::uint64_t each = weight(__uint_as_float(bits));
  const std::uint64_t wanted = each == 0 ? 1 : (shared.remaining + each - 1) / each;
  return {key, nth_equal(x, count, within, key, static_cast<int>(wanted), shared)};
}

}  // namespace inkstone::cuda
