// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/simt.cuh"

#include <climits>
#include <cmath>

namespace inkstone::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kPerLane = 8;  // routed experts of one lane
constexpr int kMaxExperts = kPerLane * kWarpThreads;

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

__device__ float log_sigmoid(float x) { return fminf(x, 0.0F) - log1pf(expf(-fabsf(x))); }

constexpr unsigned kTaken = 0;  // below the key of every score

// Ordered as the scores are; what is not a number counts as minus infinity, so that it never wins against a
// number.
__device__ unsigned key_of(float score) {
  const unsigned bits = __float_as_uint(isnan(score) ? -INFINITY : score);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

// Keys of the lane's experts lane, lane + 32, ... All loads are sent before the first is used.
__device__ void load_keys(const RouteProblem& p, const float* logits, int lane, unsigned (&key)[kPerLane]) {
  float logit[kPerLane];
  float bias[kPerLane];
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int expert = min(lane + kWarpThreads * i, p.routed - 1);
    logit[i] = logits[expert];
    bias[i] = p.bias[expert];
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const unsigned own = key_of(1.0F / (1.0F + expf(-logit[i])) + bias[i]);
    key[i] = lane + kWarpThreads * i < p.routed ? own : kTaken;
  }
}

// The best expert that no earlier round took, of equal ones the lowest; marked as taken.
__device__ int take_best(int lane, unsigned (&key)[kPerLane]) {
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

__device__ void choose_none(const RouteProblem& p, int row, int lane) {
  if (lane < p.chosen) p.experts[row * p.experts_stride + lane] = -1;
  if (lane < p.chosen + p.shared) p.weights[row * p.weights_stride + lane] = 0;
}

// Computes: the chosen experts and all weights of one row (`model.md` 7.1).
// Layout: a warp per row; lane l holds routed experts l, l + 32, ... and then weight l of the chosen and
// shared. Roles: all lanes alike. Synchronisation: within the warp only. Budget: E + S floats in, latency
// bound: one way to memory, K rounds of two reductions.
__global__ void __launch_bounds__(kWarps* kWarpThreads) route_kernel(RouteProblem p) {
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarpThreads;
  const int lane = static_cast<int>(threadIdx.x % kWarpThreads);
  if (row >= p.num_rows) return;
  if (p.row_sequence != nullptr && p.row_sequence[row] < 0) {
    choose_none(p, row, lane);
    return;
  }
  const float* const logits = p.logits + row * p.logits_stride;
  const float scale = p.route_scale * *p.global_scale;
  unsigned key[kPerLane];
  load_keys(p, logits, lane, key);

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

}  // namespace

void route(const ops::RouteArgs& args, const Launch& launch) {
  const auto num_rows = static_cast<int>(args.logits.rows());
  const auto routed = static_cast<int>(args.bias.rows());
  const auto chosen = static_cast<int>(args.experts.shape[1]);
  const auto shared = static_cast<int>(args.logits.shape[1]) - routed;
  INK_CHECK(routed <= kMaxExperts && chosen + shared <= kWarpThreads,
            "at most 256 routed experts, 32 weights a row");
  if (num_rows == 0) return;
  const RouteProblem problem{args.logits.as<float>(),
                             args.logits.row_stride,
                             args.bias.as<float>(),
                             args.global_scale.as<float>(),
                             args.route_scale,
                             args.experts.as<std::int32_t>(),
                             args.experts.row_stride,
                             args.weights.as<float>(),
                             args.weights.row_stride,
                             args.row_sequence.empty() ? nullptr : args.row_sequence.as<std::int32_t>(),
                             num_rows,
                             routed,
                             shared,
                             chosen};
  route_kernel<<<static_cast<unsigned>(ceil_div(num_rows, kWarps)), kWarps * kWarpThreads, 0,
                 launch.stream>>>(problem);
  check_launch();
}

}  // namespace inkstone::cuda
