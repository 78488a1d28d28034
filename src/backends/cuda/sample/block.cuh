// SPDX-License-Identifier: Apache-2.0
// backends/cuda/sample/block.cuh - reductions over the block that draws one row.
#pragma once

#include <climits>
#include <cmath>
#include <cstdint>

#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {

inline constexpr int kSampleThreads = 1024;
inline constexpr int kSampleWarps = kSampleThreads / kWarpThreads;

// A token and what it is judged by; the larger value, then the lower id, comes first: a total order, so that
// every tree of comparisons has the same winner.
struct Scored {
  float value = -INFINITY;
  std::int32_t id = INT_MAX;

  __device__ bool before(const Scored& other) const {
    return value > other.value || (value == other.value && id < other.id);
  }
};

// The first of all threads' candidates, in every thread.
__device__ inline Scored block_first(Scored mine) {
  __shared__ Scored of_warp[kSampleWarps];
  for (int step = kWarpThreads / 2; step > 0; step /= 2) {
    const Scored other{__shfl_xor_sync(kAllLanes, mine.value, step),
                       __shfl_xor_sync(kAllLanes, mine.id, step)};
    if (other.before(mine)) mine = other;
  }
  if (threadIdx.x % kWarpThreads == 0) of_warp[threadIdx.x / kWarpThreads] = mine;
  __syncthreads();  // every warp's candidate is there
  Scored first = of_warp[0];
  for (int warp = 1; warp < kSampleWarps; ++warp) {
    if (of_warp[warp].before(first)) first = of_warp[warp];
  }
  __syncthreads();  // read before the next call writes
  return first;
}

// Sum in the order of a fixed tree, in every thread.
__device__ inline double block_sum(double mine) {
  __shared__ double of_warp[kSampleWarps];
  for (int step = kWarpThreads / 2; step > 0; step /= 2) mine += __shfl_xor_sync(kAllLanes, mine, step);
  if (threadIdx.x % kWarpThreads == 0) of_warp[threadIdx.x / kWarpThreads] = mine;
  __syncthreads();  // every warp's sum is there
  double sum = 0;
  for (int warp = 0; warp < kSampleWarps; ++warp) sum += of_warp[warp];
  __syncthreads();  // read before the next call writes
  return sum;
}

}  // namespace inkstone::cuda
