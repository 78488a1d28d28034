// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/attention/state.cuh"
#include "backends/cuda/kernels.h"

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 128;

struct StoreProblem {
  const bf16 *k, *v;
  std::int64_t k_stride, v_stride;
  const std::int32_t *row_sequence, *row_position, *row_begin;
  KvState state;
  int kv_heads;
};

// Computes: state[position] = {k, v} of each head, for the rows that the state keeps.
// Layout: a block per row; a thread moves 16 bytes at a time. Roles: all alike. Synchronisation: none.
// Budget: memory bound, each byte read and written once.
__global__ void __launch_bounds__(kThreads) store_kv_kernel(StoreProblem p) {
  const int row = static_cast<int>(blockIdx.x);
  const int sequence = p.row_sequence[row];
  if (sequence < 0) return;
  const int rows_behind = p.row_begin[sequence + 1] - row;
  if (p.state.ring_rows > 0 && rows_behind > p.state.ring_rows)
    return;  // a later row of the batch takes its place
  const std::int64_t target = p.state.row(sequence, p.row_position[row]);
  if (target < 0) return;
  constexpr int kVectors = kHeadSize / 8;
  for (int i = static_cast<int>(threadIdx.x); i < p.kv_heads * 2 * kVectors; i += kThreads) {
    const int head = i / (2 * kVectors);
    const int within = i % (2 * kVectors);
    const bf16* const from = within < kVectors ? p.k + row * p.k_stride : p.v + row * p.v_stride;
    bf16* const to = p.state.data + (target * p.kv_heads + head) * 2 * kHeadSize;
    reinterpret_cast<uint4*>(to)[within] =
        reinterpret_cast<const uint4*>(from + head * kHeadSize)[within % kVectors];
  }
}

}  // namespace

void store_kv(const ops::StoreKvArgs& args, const Launch& launch) {
  expect_bf16(args.k);
  expect_bf16(args.v);
  INK_CHECK(args.k.shape[2] == kHeadSize, "heads of 128");
  if (args.k.rows() == 0) return;
  const StoreProblem problem{args.k.as<bf16>(),
                             args.v.as<bf16>(),
                             args.k.row_stride,
                             args.v.row_stride,
                             args.rows.row_sequence.as<std::int32_t>(),
                             args.rows.row_position.as<std::int32_t>(),
                             args.rows.row_begin.as<std::int32_t>(),
                             kv_state(args.state),
                             static_cast<int>(args.k.shape[1])};
  store_kv_kernel<<<static_cast<unsigned>(args.k.rows()), kThreads, 0, launch.stream>>>(problem);
  check_launch();
}

}  // namespace inkstone::cuda
