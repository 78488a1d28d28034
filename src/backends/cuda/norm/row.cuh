// SPDX-License-Identifier: Apache-2.0
// backends/cuda/norm/row.cuh - how a row is dealt to threads for its root mean square: the order of that sum
// is the same in every kernel that norms.
#pragma once

#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {

inline constexpr int kNormThreads = 256;
inline constexpr int kHeldVectors = 4;  // of eight, per thread
inline constexpr std::int64_t kWarpWidth =
    kHeldVectors * 8 * kWarpThreads;  // widths up to this: one warp a row
inline constexpr std::int64_t kWidest = kHeldVectors * 8 * kNormThreads;

// Vectors of eight are dealt round the threads of a row; a thread adds the squares of its own in their order.
__device__ __forceinline__ float add_squares(float sum, const Float8& x) {
#pragma unroll
  for (int j = 0; j < 8; ++j) sum += x.v[j] * x.v[j];
  return sum;
}

// Sum over the threads of one row, the same in all of them.
template <int kThreadsPerRow>
__device__ __forceinline__ float row_sum(float value) {
  value = warp_sum(value);
  if constexpr (kThreadsPerRow == kWarpThreads) {
    return value;
  } else {
    constexpr int kWarps = kThreadsPerRow / kWarpThreads;
    __shared__ float partial[kWarps];
    if (threadIdx.x % kWarpThreads == 0) partial[threadIdx.x / kWarpThreads] = value;
    __syncthreads();  // every warp's share is there
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += partial[warp];
    return sum;
  }
}

__device__ __forceinline__ float norm_factor(float squares, int width, float eps) {
  return 1.0F / sqrtf(squares / static_cast<float>(width) + eps);
}

}  // namespace inkstone::cuda
