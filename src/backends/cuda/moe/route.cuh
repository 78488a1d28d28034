// SPDX-License-Identifier: Apache-2.0
// backends/cuda/moe/route.cuh - the choice of experts of one row, by one warp (`model.md` 7.1).
#pragma once

#include <climits>
#include <cmath>

#include "backends/cuda/primitives/simt.cuh"
#include "ops/moe.h"

namespace inkstone::cuda {

inline constexpr int kPerLane = 8;  // routed experts of one lane
inline constexpr int kMaxExperts = kPerLane * kWarpThreads;

struct RouteProblem {
  const float* logits;
  std::int64_t logits_stride;
  const float* bias;
  const float* global_scale;
  float route_scale;
  std::int32_t* experts;
  std::int64_t experts_stride;
  float* weights;
  std::int64_t weights_stride;
  const std::int32_t* row_sequence;  // null: no row is padding
  int num_rows, routed, shared, chosen;
};

__device__ __forceinline__ float log_sigmoid(float x) { return fminf(x, 0.0F) - log1pf(expf(-fabsf(x))); }

inline constexpr unsigned kTaken = 0;  // below the key of every score

// Ordered as the scores are; what is not a number counts as minus infinity, so that it never wins against a
// number.
__device__ __forceinline__ unsigned key_of(float score) {
  const unsigned bits = __float_as_uint(isnan(score) ? -INFINITY : score);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Keys of the lane's experts lane, lane + 32, ... All loads are sent before the first is used.
__device__ __forceinline__ void load_keys(const RouteProblem& p, const float* logits, const float* biases,
                                          int lane, unsigned (&key)[kPerLane]) {
  float logit[kPerLane];
  float bias[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int expert = min(lane + kWarpThreads * i, p.routed - 1);
    logit[i] = logits[expert];
    bias[i] = biases[expert];
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const unsigned own = key_of(1.0F / (1.0F + expf(-logit[i])) + bias[i]);
    key[i] = lane + kWarpThreads * i < p.routed ? own : kTaken;
  }
}

// The best expert that no earlier round took, of equal ones the lowest; marked as taken.
__device__ __forceinline__ int take_best(int lane, unsigned (&key)[kPerLane]) {
  unsigned best = kTaken;
  unsigned expert = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    if (key[i] > best) best = key[i], expert = static_cast<unsigned>(lane + kWarpThreads * i);
  }
  const unsigned top = __reduce_max_sync(kAllLanes, best);
  expert = __reduce_min_sync(kAllLanes, best == top ? expert : UINT_MAX);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    if (static_cast<unsigned>(lane + kWarpThreads * i) == expert) key[i] = kTaken;
  }
  return static_cast<int>(expert);
}

__device__ __forceinline__ void choose_none(const RouteProblem& p, int row, int lane) {
  if (lane < p.chosen) p.experts[row * p.experts_stride + lane] = -1;
  if (lane < p.chosen + p.shared) p.weights[row * p.weights_stride + lane] = 0;
}

// Lane l holds routed experts l, l + 32, ... and then weight l of the chosen and shared. `logits` of the row
// and `biases` may lie in shared memory.
__device__ __forceinline__ void route_row(const RouteProblem& p, int row, const float* logits,
                                          const float* biases) {
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  if (p.row_sequence != nullptr && p.row_sequence[row] < 0) {
    choose_none(p, row, lane);
    return;
  }
  const float scale = p.route_scale * *p.global_scale;
  unsigned key[kPerLane];
  load_keys(p, logits, biases, lane, key);

  int mine = lane < p.chosen + p.shared ? p.routed + lane - p.chosen : 0;  // right for the shared ones
  for (int k = 0; k < p.chosen; ++k) {
    const int expert = take_best(lane, key);
    if (lane == k) {
      mine = expert;
      p.experts[row * p.experts_stride + k] = expert;
    }
  }
  const bool member = lane < p.chosen + p.shared;
  const float own = member ? log_sigmoid(logits[mine]) : -INFINITY;
  const float largest = warp_max(own);
  const float sum = warp_sum(member ? expf(own - largest) : 0.0F);
  if (member) {
    const float weight = expf(own - (largest + logf(sum)));
    p.weights[row * p.weights_stride + lane] = weight * scale;
  }
}

RouteProblem problem_of(const ops::RouteArgs& args);

}  // namespace inkstone::cuda
