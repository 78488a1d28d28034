// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/attention/state.cuh"
#include "backends/cuda/conv/taps.cuh"
#include "backends/cuda/kernels.h"
#include "backends/cuda/norm/row.cuh"
#include "backends/cuda/primitives/overlap.cuh"

namespace inkstone::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kHeadLanes = kHeadSize / 8;  // of a warp; a vector of eight each

struct HeadsProblem {
  ConvProblem k_conv, v_conv;
  bf16* q;
  std::int64_t q_stride;
  const bf16 *q_weight, *k_weight;
  float q_eps, k_eps;
  bf16* rel;  // null: no scaling
  std::int64_t rel_stride;
  int rel_width;
  const std::int32_t* scale_position;
  float floor, alpha;
  KvState state;
  bool stores;
  int num_rows, heads, kv_heads;
};

// Where a row's keys go, null where they are not kept. Values follow their keys.
__device__ __forceinline__ bf16* stored_head(const HeadsProblem& p, int row, int sequence, int kv_head) {
  if (!p.stores || sequence < 0) return nullptr;
  const int rows_behind = p.k_conv.row_begin[sequence + 1] - row;
  if (p.state.ring_rows > 0 && rows_behind > p.state.ring_rows) return nullptr;
  const std::int64_t target = p.state.row(sequence, p.k_conv.row_position[row]);
  return target < 0 ? nullptr : p.state.data + (target * p.kv_heads + kv_head) * 2 * kHeadSize;
}

// As rms_norm_kernel with a warp a row, rounded.
__device__ __forceinline__ Float8 normed(const Float8& x, const uint4& weights, float eps) {
  const float squares = row_sum<kWarpThreads>(add_squares(0, x));
  const float factor = norm_factor(squares, kHeadSize, eps);
  const Float8 weight = widen(weights);
  Float8 out;
#pragma unroll
  for (int j = 0; j < 8; ++j) out.v[j] = round_bf16(x.v[j] * factor * weight.v[j]);
  return out;
}

__device__ __forceinline__ float tau_of(const HeadsProblem& p, int row) {
  return p.rel == nullptr ? 1.0F : length_factor(p.scale_position[row], p.floor, p.alpha);
}

__device__ __forceinline__ void scale_by(Float8& x, float tau) {
#pragma unroll
  for (int j = 0; j < 8; ++j) x.v[j] *= tau;
}

// Lanes from kHeadLanes on hold zeros, which change no sum.
__device__ __forceinline__ void prepare_query(const HeadsProblem& p, int row, int head) {
  const auto lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const bool holds = lane < kHeadLanes;
  const uint4 weight = holds ? reinterpret_cast<const uint4*>(p.q_weight)[lane] : make_uint4(0, 0, 0, 0);
  const float tau = tau_of(p, row);
  bf16* const q = p.q + row * p.q_stride + head * kHeadSize + 8 * lane;
  wait_for_previous();
  begin_next();
  Float8 value = normed(holds ? load8(q) : Float8{}, weight, p.q_eps);
  if (!holds) return;
  if (p.rel != nullptr) scale_by(value, tau);
  store8(q, value);
}

// Keys: convolution and norm; values: convolution. Both go to the batch's rows and to the state.
__device__ __forceinline__ void prepare_state(const HeadsProblem& p, int row, int kv_head, bool keys) {
  const ConvProblem& conv = keys ? p.k_conv : p.v_conv;
  const auto lane = static_cast<int>(threadIdx.x % kWarpThreads);
  const bool holds = lane < kHeadLanes;
  const int channel = kv_head * kHeadSize + 8 * (lane % kHeadLanes);
  const TapRows rows(conv, row);
  bf16* const stored = stored_head(p, row, conv.row_sequence[row], kv_head);
  const ModelWeights weights(conv, channel);
  const uint4 norm_weight = reinterpret_cast<const uint4*>(p.k_weight)[lane % kHeadLanes];
  ModelInputs inputs;
  inputs.fetch<true>(rows, channel);
  wait_for_previous();
  begin_next();
  inputs.fetch<false>(rows, channel);
  Float8 value = inputs.convolve<bf16>(weights);
  if (keys) value = normed(holds ? value : Float8{}, norm_weight, p.k_eps);
  if (!holds) return;
  store8(out_at<bf16>(conv, row, channel), value);
  if (rows.kept != nullptr) *reinterpret_cast<uint4*>(rows.kept + channel) = inputs.own();
  if (stored != nullptr) store8(stored + (keys ? 0 : kHeadSize) + 8 * lane, value);
}

__device__ __forceinline__ void prepare_relative(const HeadsProblem& p, int row) {
  const float tau = tau_of(p, row);
  wait_for_previous();
  begin_next();
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x % kWarpThreads) * 8; i < p.rel_width; i += kWarpThreads * 8) {
    bf16* const at = p.rel + row * p.rel_stride + i;
    Float8 value = load8(at);
    scale_by(value, tau);
    store8(at, value);
  }
}

// Computes: norm (and tau) of queries, convolution and norm of keys, convolution of values, tau of relative
// features, keys and values into the state: short_conv_kernel, rms_norm_kernel, log_scale_kernel and
// store_kv_kernel, rounded where they round.
// Layout: a warp per row and item: query heads, key heads, value heads, relative features.
// Roles: by item. Synchronisation: within the warp only; state and weights are fetched before the kernel
// waits for the projection. Budget: latency bound: one way to memory.
__global__ void __launch_bounds__(kWarps* kWarpThreads) prepare_heads_kernel(HeadsProblem p) {
  const auto row = static_cast<int>(blockIdx.x);
  const int item = static_cast<int>(blockIdx.y) * kWarps + static_cast<int>(threadIdx.x) / kWarpThreads;
  const int keys = p.heads;
  const int values = keys + p.kv_heads;
  const int relative = values + p.kv_heads;
  if (item < keys) return prepare_query(p, row, item);
  if (item < relative) return prepare_state(p, row, (item - keys) % p.kv_heads, item < values);
  if (item == relative && p.rel != nullptr) return prepare_relative(p, row);
  wait_for_previous();
}

bool fits(const ops::PrepareHeadsArgs& args) {
  for (const ops::ShortConvArgs* conv : {&args.k_conv, &args.v_conv}) {
    if (!keeps_beside(*conv) || !has_model_weights(*conv)) return false;
  }
  const Shape& q = args.q_norm.x.shape;
  return q.rank() == 3 && q[2] == kHeadSize && args.k_norm.x.shape.rank() == 3 &&
         args.k_norm.x.shape[2] == kHeadSize;
}

void run_parts(const ops::PrepareHeadsArgs& args, const Launch& launch) {
  short_conv(args.k_conv, launch);
  short_conv(args.v_conv, launch);
  rms_norm(args.q_norm, launch);
  rms_norm(args.k_norm, launch);
  if (args.q_scale) log_scale(*args.q_scale, launch);
  if (args.rel_scale) log_scale(*args.rel_scale, launch);
  if (args.store) store_kv(*args.store, launch);
}

HeadsProblem problem_of(const ops::PrepareHeadsArgs& args) {
  for (const TensorView* view : {&args.q_norm.x, &args.k_conv.out, &args.v_conv.out}) expect_bf16(*view);
  for (const TensorView* weights : {&args.q_norm.weight, &args.k_norm.weight}) expect_bf16_weights(*weights);
  HeadsProblem p{};
  p.k_conv = conv_problem(args.k_conv), p.v_conv = conv_problem(args.v_conv);
  p.q = args.q_norm.x.as<bf16>();
  p.q_stride = args.q_norm.x.row_stride;
  p.q_weight = args.q_norm.weight.as<bf16>(), p.k_weight = args.k_norm.weight.as<bf16>();
  p.q_eps = args.q_norm.eps, p.k_eps = args.k_norm.eps;
  p.num_rows = static_cast<int>(args.q_norm.x.rows());
  p.heads = static_cast<int>(args.q_norm.x.shape[1]);
  p.kv_heads = static_cast<int>(args.k_norm.x.shape[1]);
  if (args.rel_scale) {
    expect_bf16(args.rel_scale->x);
    p.rel = args.rel_scale->x.as<bf16>();
    p.rel_stride = args.rel_scale->x.row_stride;
    p.rel_width = static_cast<int>(args.rel_scale->x.row_elements());
    p.scale_position = args.rel_scale->row_position.as<std::int32_t>();
    p.floor = args.rel_scale->floor, p.alpha = args.rel_scale->alpha;
  }
  p.stores = args.store.has_value();
  if (p.stores) p.state = kv_state(args.store->state);
  return p;
}

}  // namespace

void prepare_heads(const ops::PrepareHeadsArgs& args, const Launch& launch) {
  if (!fits(args)) return run_parts(args, launch);
  const HeadsProblem problem = problem_of(args);
  if (problem.num_rows == 0) return;
  const int items = problem.heads + 2 * problem.kv_heads + (problem.rel == nullptr ? 0 : 1);
  const dim3 grid(static_cast<unsigned>(problem.num_rows), static_cast<unsigned>(ceil_div(items, kWarps)));
  start_overlapped(prepare_heads_kernel, {grid, kWarps * kWarpThreads}, launch, problem);
  check_launch();
}

}  // namespace inkstone::cuda
