// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 128;

// Computes: out[t] = sum over columns b of table[index(t, b)], in f32 in the order of the columns, rounded
// once; one column copies the row exactly. Layout: a block per row of out, vectors of eight dealt round.
// Roles: all alike. Synchronisation: none. Budget: memory bound; each thread reads `columns` independent
// vectors.
template <class Out>
struct EmbedProblem {
  const std::int32_t* index;
  std::int64_t index_stride;
  const bf16* table;
  std::int64_t table_stride;
  Out* out;
  std::int64_t out_stride;
  int columns;
  int rows_per_column;  // rows of the table that belong to one column
  int width;
};

template <class Out>
__global__ void __launch_bounds__(kThreads) embed_kernel(EmbedProblem<Out> p) {
  const std::int64_t row = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x) * 8; i < p.width; i += kThreads * 8) {
    Float8 sum{};
    for (int column = 0; column < p.columns; ++column) {
      const std::int64_t entry =
          static_cast<std::int64_t>(column) * p.rows_per_column + p.index[row * p.index_stride + column];
      const Float8 value = load8(p.table + entry * p.table_stride + i);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum.v[j] += value.v[j];
    }
    store8(p.out + row * p.out_stride + i, sum);
  }
}

template <class Out>
void launch_embed(const EmbedProblem<Out>& problem, std::int64_t num_rows, const Launch& launch) {
  INK_CHECK(problem.width % 8 == 0, "embedding widths are multiples of 8");
  if (num_rows == 0) return;
  embed_kernel<<<static_cast<unsigned>(num_rows), kThreads, 0, launch.stream>>>(problem);
  check_launch();
}

template <class Out>
void launch_rows(const ops::EmbedArgs& args, const Launch& launch) {
  launch_embed<Out>(
      {args.ids.as<std::int32_t>(), args.ids.row_stride, args.table.as<bf16>(), args.table.row_stride,
       args.out.as<Out>(), args.out.row_stride, 1, 0, static_cast<int>(args.out.shape[1])},
      args.out.rows(), launch);
}

template <class Out>
void launch_sum(const ops::EmbedSumArgs& args, const Launch& launch) {
  launch_embed<Out>(
      {args.levels.as<std::int32_t>(), args.levels.row_stride, args.table.as<bf16>(), args.table.row_stride,
       args.out.as<Out>(), args.out.row_stride, static_cast<int>(args.levels.shape[1]),
       static_cast<int>(args.num_levels), static_cast<int>(args.out.shape[1])},
      args.out.rows(), launch);
}

}  // namespace

void embed(const ops::EmbedArgs& args, const Launch& launch) {
  expect_vectorised(args.out);
  if (args.out.type == ScalarType::kF32) return launch_rows<float>(args, launch);
  launch_rows<bf16>(args, launch);
}

void embed_sum(const ops::EmbedSumArgs& args, const Launch& launch) {
  expect_vectorised(args.out);
  if (args.out.type == ScalarType::kF32) return launch_sum<float>(args, launch);
  launch_sum<bf16>(args, launch);
}

}  // namespace inkstone::cuda
