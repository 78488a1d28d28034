// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/conv/taps.cuh"
#include "backends/cuda/kernels.h"

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 64;
// Every load is sent before the first is used: a step has nothing else that hides the way to memory.
__device__ Float8 sum_of_taps(const ConvProblem& p, const ModelWeights& weights, const RowPlace& place,
                              int channel) {
  uint4 inputs[kModelTaps];
#pragma unroll
  for (int k = 0; k < kModelTaps; ++k) {
    inputs[k] = input_at(p, place, place.position - (kModelTaps - 1) + k, channel);
  }
  Float8 taps{};
#pragma unroll
  for (int k = 0; k < kModelTaps; ++k) {
    const Float8 input = widen(inputs[k]);
#pragma unroll
    for (int i = 0; i < 8; ++i) taps.v[i] += weights.get(i, k) * input.v[i];
  }
  return taps;
}

// Weights of any W, anywhere: read when they are used.
struct AnyWeights {
  __device__ AnyWeights(const ConvProblem& p, int channel)
      : first(p.weight + static_cast<std::int64_t>(channel) * p.taps) {}
  const bf16* first;
};

__device__ Float8 sum_of_taps(const ConvProblem& p, const AnyWeights& weights, const RowPlace& place,
                              int channel) {
  Float8 taps{};
  for (int k = 0; k < p.taps; ++k) {
    const Float8 input = widen(input_at(p, place, place.position - (p.taps - 1) + k, channel));
#pragma unroll
    for (int i = 0; i < 8; ++i) taps.v[i] += __bfloat162float(weights.first[i * p.taps + k]) * input.v[i];
  }
  return taps;
}

// Computes: out = x + sum over taps of weight * earlier input, f32 in the order of the taps, rounded once
// where Out is BF16.
// Layout: block (row, 512 channels), eight channels a thread. Roles: all alike.
// Synchronisation: none. `keep`: also stores the state, allowed while no sequence has more rows than the ring
// keeps: then the rows written and the older rows read differ. Budget: memory bound: W + 1 vectors in and out
// per vector, most of them from L2.
template <class Weights, class Out>
__global__ void __launch_bounds__(kThreads) short_conv_kernel(ConvProblem p, bool keep) {
  const int row = static_cast<int>(blockIdx.x);
  const int channel = static_cast<int>(blockIdx.y * kThreads + threadIdx.x) * 8;
  if (channel >= p.channels) return;
  const Weights weights(p, channel);
  Float8 own = load8(p.x + row * p.x_stride + channel);
  Out* const out = out_at<Out>(p, row, channel);
  const int sequence = p.row_sequence[row];
  if (sequence < 0) {
    store8(out, {});
    return;
  }
  const Float8 taps = sum_of_taps(p, weights, place_of(p, row, sequence), channel);
#pragma unroll
  for (int i = 0; i < 8; ++i) own.v[i] += taps.v[i];
  store8(out, own);
  if (keep) keep_input(p, row, sequence, channel);
}

// Computes: the state after the batch, where it could not be written beside the convolution.
// Layout, roles, synchronisation: as short_conv_kernel. Budget: a vector in and out, for the last rows only.
__global__ void __launch_bounds__(kThreads) keep_inputs_kernel(ConvProblem p) {
  const int row = static_cast<int>(blockIdx.x);
  const int channel = static_cast<int>(blockIdx.y * kThreads + threadIdx.x) * 8;
  const int sequence = p.row_sequence[row];
  if (channel < p.channels && sequence >= 0) keep_input(p, row, sequence, channel);
}

}  // namespace

ConvProblem conv_problem(const ops::ShortConvArgs& args) {
  for (const TensorView* view : {&args.x, &args.state.storage}) expect_bf16(*view);
  expect_vectorised(args.out);
  return {args.x.as<bf16>(),
          args.x.row_stride,
          args.weight.as<bf16>(),
          args.out.data,
          args.out.row_stride,
          args.rows.row_sequence.as<std::int32_t>(),
          args.rows.row_position.as<std::int32_t>(),
          args.rows.row_begin.as<std::int32_t>(),
          args.rows.first_position.as<std::int32_t>(),
          args.state.storage.as<bf16>(),
          args.state.storage.row_stride,
          args.state.table.as<std::int32_t>(),
          static_cast<int>(args.state.ring_rows),
          static_cast<int>(args.weight.shape[1]),
          static_cast<int>(args.x.shape[1])};
}

namespace {

template <class Out>
void launch_conv(const ops::ShortConvArgs& args, const ConvProblem& problem, const dim3& grid,
                 const Launch& launch) {
  const bool keep = keeps_beside(args);
  if (has_model_weights(args)) {
    short_conv_kernel<ModelWeights, Out><<<grid, kThreads, 0, launch.stream>>>(problem, keep);
  } else {
    short_conv_kernel<AnyWeights, Out><<<grid, kThreads, 0, launch.stream>>>(problem, keep);
  }
  check_launch();
}

}  // namespace

void short_conv(const ops::ShortConvArgs& args, const Launch& launch) {
  const std::int64_t channels = args.x.shape[1];
  if (args.x.rows() == 0) return;
  const ConvProblem problem = conv_problem(args);
  const dim3 grid(static_cast<unsigned>(args.x.rows()),
                  static_cast<unsigned>(ceil_div(channels, 8 * kThreads)));
  if (args.out.type == ScalarType::kF32) {
    launch_conv<float>(args, problem, grid, launch);
  } else {
    launch_conv<bf16>(args, problem, grid, launch);
  }
  if (keeps_beside(args)) return;
  keep_inputs_kernel<<<grid, kThreads, 0, launch.stream>>>(problem);
  check_launch();
}

}  // namespace inkstone::cuda
