// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 128;

struct ConvProblem {
  const bf16* x;
  std::int64_t x_stride;
  const bf16* weight;  // [C, W]
  bf16* out;
  std::int64_t out_stride;
  const std::int32_t *row_sequence, *row_position, *row_begin, *first_position;
  bf16* state;
  std::int64_t state_stride;
  const std::int32_t* slot;  // [S]
  int ring_rows;
  int taps;      // W
  int channels;  // C
};

__device__ bf16* state_row(const ConvProblem& p, int slot, int position) {
  return p.state + (static_cast<std::int64_t>(slot) * p.ring_rows + position % p.ring_rows) * p.state_stride;
}

// The input of one position of the row's sequence: from the batch, from the state, or zero before the
// beginning.
__device__ Float8 input_at(const ConvProblem& p, int sequence, int position, int channel) {
  if (position < 0) return {};
  const int in_batch = position - p.first_position[sequence];
  if (in_batch >= 0) {
    const std::int64_t row = p.row_begin[sequence] + in_batch;
    return load8(p.x + row * p.x_stride + channel);
  }
  const int slot = p.slot[sequence];
  return slot < 0 ? Float8{} : load8(state_row(p, slot, position) + channel);
}

// Keeps the input of one row where the next step looks for it, if it is among the last that the ring has room
// for.
__device__ void keep_input(const ConvProblem& p, int row, int sequence, int channel) {
  const int rows_behind = p.row_begin[sequence + 1] - row;
  const int slot = p.slot[sequence];
  if (slot < 0 || rows_behind > p.ring_rows - (p.taps - 1)) return;
  *reinterpret_cast<uint4*>(state_row(p, slot, p.row_position[row]) + channel) =
      *reinterpret_cast<const uint4*>(p.x + row * p.x_stride + channel);
}

// Computes: out = x + sum over taps of weight * earlier input, f32 in the order of the taps, rounded once.
// Layout: block (row, 1024 channels), eight channels a thread. Roles: all alike.
// Synchronisation: none. `keep`: also stores the state, allowed while no sequence has more rows than the ring
// keeps: then the rows written and the older rows read differ. Budget: memory bound: W + 1 vectors in and out
// per vector, most of them from L2.
__global__ void __launch_bounds__(kThreads) short_conv_kernel(ConvProblem p, bool keep) {
  const int row = static_cast<int>(blockIdx.x);
  const int channel = static_cast<int>(blockIdx.y * kThreads + threadIdx.x) * 8;
  if (channel >= p.channels) return;
  const int sequence = p.row_sequence[row];
  bf16* const out = p.out + row * p.out_stride + channel;
  if (sequence < 0) {
    store8(out, {});
    return;
  }
  Float8 taps{};
  for (int k = 0; k < p.taps; ++k) {
    const Float8 input = input_at(p, sequence, p.row_position[row] - (p.taps - 1) + k, channel);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      taps.v[i] +=
          __bfloat162float(p.weight[static_cast<std::int64_t>(channel + i) * p.taps + k]) * input.v[i];
    }
  }
  Float8 own = load8(p.x + row * p.x_stride + channel);
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

void short_conv(const ops::ShortConvArgs& args, const Launch& launch) {
  for (const TensorView* view : {&args.x, &args.out, &args.state.storage}) expect_bf16(*view);
  const std::int64_t channels = args.x.shape[1];
  if (args.x.rows() == 0) return;
  const ConvProblem problem{args.x.as<bf16>(),
                            args.x.row_stride,
                            args.weight.as<bf16>(),
                            args.out.as<bf16>(),
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
                            static_cast<int>(channels)};
  const dim3 grid(static_cast<unsigned>(args.x.rows()),
                  static_cast<unsigned>(ceil_div(channels, 8 * kThreads)));
  const bool keep = args.rows.max_sequence_rows <= args.state.ring_rows - (args.weight.shape[1] - 1);
  short_conv_kernel<<<grid, kThreads, 0, launch.stream>>>(problem, keep);
  check_launch();
  if (keep) return;
  keep_inputs_kernel<<<grid, kThreads, 0, launch.stream>>>(problem);
  check_launch();
}

}  // namespace inkstone::cuda
