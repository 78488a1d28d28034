// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/moe/route.cuh"

#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/overlap.cuh"

namespace inkstone::cuda {
namespace {

constexpr int kWarps = 4;

// Computes: the chosen experts and all weights of one row (`model.md` 7.1).
// Layout: a warp per row. Roles: all lanes alike. Synchronisation: within the warp only. Budget: E + S floats
// in, latency bound: one way to memory, K rounds of two reductions.
__global__ void __launch_bounds__(kWarps* kWarpThreads) route_kernel(RouteProblem p) {
  wait_for_previous();
  begin_next();
  const int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarpThreads;
  if (row < p.num_rows) route_row(p, row, p.logits + row * p.logits_stride, p.bias);
}

}  // namespace

RouteProblem problem_of(const ops::RouteArgs& args) {
  const auto num_rows = static_cast<int>(args.logits.rows());
  const auto routed = static_cast<int>(args.bias.rows());
  const auto chosen = static_cast<int>(args.experts.shape[1]);
  const auto shared = static_cast<int>(args.logits.shape[1]) - routed;
  INK_CHECK(routed <= kMaxExperts && chosen + shared <= kWarpThreads,
            "at most 256 routed experts, 32 weights a row");
  return {args.logits.as<float>(),
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
}

void route(const ops::RouteArgs& args, const Launch& launch) {
  const RouteProblem problem = problem_of(args);
  if (problem.num_rows == 0) return;
  const dim3 grid(static_cast<unsigned>(ceil_div(problem.num_rows, kWarps)));
  start_overlapped(route_kernel, {grid, kWarps * kWarpThreads}, launch, problem);
  check_launch();
}

}  // namespace inkstone::cuda
