// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 128;

// Row i of the batch side moves from or to row index[i] of the table side.
struct MoveProblem {
  const std::byte* from;
  std::byte* to;
  std::int64_t from_stride_bytes, to_stride_bytes;
  const std::int32_t* index;
  bool index_is_source;
  std::int64_t width;  // elements of type Unit
};

// Computes: to[..] = from[..], converted where the two sides differ. A negative index moves nothing.
// Layout: a block per row, elements dealt round. Roles: all alike. Synchronisation: none, rows are distinct.
// Budget: memory bound.
template <class From, class To>
__global__ void __launch_bounds__(kThreads) move_kernel(MoveProblem p) {
  const std::int64_t other = p.index[blockIdx.x];
  if (other < 0) return;
  const std::int64_t source = p.index_is_source ? other : blockIdx.x;
  const std::int64_t target = p.index_is_source ? blockIdx.x : other;
  const auto* from = reinterpret_cast<const From*>(p.from + source * p.from_stride_bytes);
  auto* to = reinterpret_cast<To*>(p.to + target * p.to_stride_bytes);
  for (std::int64_t i = threadIdx.x; i < p.width; i += kThreads) {
    if constexpr (std::is_same_v<From, To>) {
      to[i] = from[i];
    } else if constexpr (std::is_same_v<From, bf16>) {
      to[i] = __bfloat162float(from[i]);
    } else {
      to[i] = __float2bfloat16_rn(from[i]);
    }
  }
}

void move_rows(const TensorView& x, const TensorView& out, const TensorView& index, bool index_is_source,
               const Launch& launch) {
  if (index.rows() == 0) return;
  MoveProblem problem{x.data,
                      out.data,
                      x.row_stride * size_bytes(x.type),
                      out.row_stride * size_bytes(out.type),
                      index.as<std::int32_t>(),
                      index_is_source,
                      x.shape[1]};
  const auto blocks = static_cast<unsigned>(index.rows());
  if (x.type != out.type) {
    if (x.type == ScalarType::kBF16) {
      move_kernel<bf16, float><<<blocks, kThreads, 0, launch.stream>>>(problem);
    } else {
      move_kernel<float, bf16><<<blocks, kThreads, 0, launch.stream>>>(problem);
    }
  } else if (is_vectorised(x) && is_vectorised(out)) {
    problem.width = x.shape[1] * size_bytes(x.type) / 16;
    move_kernel<uint4, uint4><<<blocks, kThreads, 0, launch.stream>>>(problem);
  } else {
    problem.width = x.shape[1] * size_bytes(x.type);
    move_kernel<std::uint8_t, std::uint8_t><<<blocks, kThreads, 0, launch.stream>>>(problem);
  }
  check_launch();
}

}  // namespace

void gather_rows(const ops::GatherRowsArgs& args, const Launch& launch) {
  move_rows(args.x, args.out, args.index, true, launch);
}

void scatter_rows(const ops::ScatterRowsArgs& args, const Launch& launch) {
  move_rows(args.x, args.out, args.index, false, launch);
}

}  // namespace inkstone::cuda
