// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/conv/taps.cuh"
#include "backends/cuda/kernels.h"
#include "backends/cuda/norm/row.cuh"
#include "backends/cuda/primitives/overlap.cuh"

namespace inkstone::cuda {
namespace {

template <class Stream>  // number type of the residual stream
struct BranchProblem {
  ConvProblem conv;
  Stream* residual;
  std::int64_t residual_stride;
  const bf16* norm_weight;
  bf16 *out, *rest;  // rest: null where nobody wants it
  std::int64_t out_stride, rest_stride;
  float eps;
  int num_rows;
};

// Eight channels of one row: what is known before the branch's result is there.
template <class Stream>
struct BranchShare {
  ModelInputs inputs;
  ModelWeights weights;
  Raw8<Stream> residual;
  uint4 norm_weight;

  __device__ __forceinline__ void fetch(const BranchProblem<Stream>& p, const TapRows& rows, int row,
                                        int channel) {
    inputs.fetch<true>(rows, channel);
    weights = ModelWeights(p.conv, channel);
    residual.load(p.residual + row * p.residual_stride + channel);
    norm_weight = *reinterpret_cast<const uint4*>(p.norm_weight + channel);
  }
};

// Computes: x += short convolution of the branch, out = norm of x: short_conv_kernel, add_kernel and
// rms_norm_kernel, rounded where they round.
// Layout: as rms_norm_kernel, whose order of the sum this one has: kThreadsPerRow threads a row, up to kHeld
// vectors of eight channels each. Roles: all alike. Synchronisation: as rms_norm_kernel; state and weights
// are fetched before the kernel waits for the branch's result. The state is written beside it, so no sequence
// has more rows than the ring keeps. Budget: latency bound at a step: one way to memory.
template <class Stream, int kThreadsPerRow, int kHeld>
__global__ void __launch_bounds__(kNormThreads) end_branch_kernel(BranchProblem<Stream> p) {
  constexpr int kRowsPerBlock = kNormThreads / kThreadsPerRow;
  const int row =
      static_cast<int>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.x) / kThreadsPerRow;
  if (row >= p.num_rows) {  // whole warps; a block of one row never gets here
    wait_for_previous();
    return;
  }
  const int first = static_cast<int>(threadIdx.x) % kThreadsPerRow * 8;
  const auto channel = [&](int n) { return first + n * kThreadsPerRow * 8; };
  const TapRows rows(p.conv, row);
  BranchShare<Stream> share[kHeld];
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    if (channel(n) < p.conv.channels) share[n].fetch(p, rows, row, channel(n));
  }
  wait_for_previous();
  begin_next();

  Float8 sum[kHeld];
  float squares = 0;
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    if (channel(n) < p.conv.channels) share[n].inputs.fetch<false>(rows, channel(n));
  }
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    sum[n] = {};
    if (channel(n) >= p.conv.channels) continue;
    const Float8 convolved = share[n].inputs.template convolve<Stream>(share[n].weights);
    sum[n] = share[n].residual.wide();
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[n].v[j] = as_stored<Stream>(sum[n].v[j] + convolved.v[j]);
    store8(p.residual + row * p.residual_stride + channel(n), sum[n]);
    if (rows.kept != nullptr) *reinterpret_cast<uint4*>(rows.kept + channel(n)) = share[n].inputs.own();
    squares = add_squares(squares, sum[n]);
  }
  const float factor = norm_factor(row_sum<kThreadsPerRow>(squares), p.conv.channels, p.eps);
#pragma unroll
  for (int n = 0; n < kHeld; ++n) {
    if (channel(n) >= p.conv.channels) break;
    const Float8 weight = widen(share[n].norm_weight);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[n].v[j] = sum[n].v[j] * factor * weight.v[j];
    store8(p.out + row * p.out_stride + channel(n), sum[n]);
    if (p.rest != nullptr) store8(p.rest + row * p.rest_stride + channel(n), rest_of(sum[n]));
  }
}

template <class Stream, int kThreadsPerRow, int kHeld>
void launch_end(const BranchProblem<Stream>& problem, const Launch& launch) {
  const dim3 grid(static_cast<unsigned>(ceil_div(problem.num_rows, kNormThreads / kThreadsPerRow)));
  start_overlapped(end_branch_kernel<Stream, kThreadsPerRow, kHeld>, {grid, kNormThreads}, launch, problem);
  check_launch();
}

template <class Stream>
void end_on(const ops::EndBranchArgs& args, const Launch& launch) {
  const std::int64_t width = args.conv.x.shape[1];
  const BranchProblem<Stream> problem{conv_problem(args.conv),
                                      args.add.out.as<Stream>(),
                                      args.add.out.row_stride,
                                      args.norm.weight.as<bf16>(),
                                      args.norm.out.as<bf16>(),
                                      args.norm.rest.empty() ? nullptr : args.norm.rest.as<bf16>(),
                                      args.norm.out.row_stride,
                                      args.norm.rest.empty() ? 0 : args.norm.rest.row_stride,
                                      args.norm.eps,
                                      static_cast<int>(args.conv.x.rows())};
  if (problem.num_rows == 0) return;
  if (width <= kWarpWidth) return launch_end<Stream, kWarpThreads, kHeldVectors>(problem, launch);
  if (width <= 3 * 8 * kNormThreads) return launch_end<Stream, kNormThreads, 3>(problem, launch);
  launch_end<Stream, kNormThreads, kHeldVectors>(problem, launch);
}

}  // namespace

void end_branch(const ops::EndBranchArgs& args, const Launch& launch) {
  if (!keeps_beside(args.conv) || !has_model_weights(args.conv) || args.conv.x.shape[1] > kWidest) {
    short_conv(args.conv, launch);
    add(args.add, launch);
    rms_norm(args.norm, launch);
    return;
  }
  expect_bf16(args.norm.out);
  expect_vectorised(args.add.out);
  if (!args.norm.rest.empty()) expect_bf16(args.norm.rest);
  expect_bf16_weights(args.norm.weight);
  if (args.add.out.type == ScalarType::kF32) return end_on<float>(args, launch);
  end_on<bf16>(args, launch);
}

}  // namespace inkstone::cuda
