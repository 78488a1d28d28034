// SPDX-License-Identifier: Apache-2.0
// backends/cuda/moe/grouped.cuh - what the grouped products share: the rows of a block, where results go.
#pragma once

#include "backends/cuda/moe/problem.cuh"

namespace inkstone::cuda {

// The rows of one block: assignments of one expert, or consecutive rows of a shared one.
struct TileRows {
  int bank;
  int first;  // into order, or first row
  int count;
  int shared_slot;  // -1 for routed experts

  __device__ int assignment(const MoeProblem& p, int i) const {
    return shared_slot < 0 ? p.tables.order[first + i] : (first + i) * p.slots + shared_slot;
  }
};

template <bool kShared>
__device__ __forceinline__ bool find_tile(const MoeProblem& p, int tile_rows, TileRows& tile) {
  if constexpr (kShared) {
    tile.bank = static_cast<int>(blockIdx.z);
    tile.first = static_cast<int>(blockIdx.y) * tile_rows;
    tile.count = min(tile_rows, p.num_rows - tile.first);
    tile.shared_slot = p.chosen + tile.bank;
  } else {
    if (static_cast<int>(blockIdx.y) >= *p.tables.num_tiles) return false;
    tile.bank = p.tables.tile_expert[blockIdx.y];
    tile.first = p.tables.tile_begin[blockIdx.y];
    tile.count = min(tile_rows, p.tables.offset[tile.bank + 1] - tile.first);
    tile.shared_slot = -1;
  }
  return true;
}

// One unit of one assignment.
template <bool kShared>
__device__ __forceinline__ void store_unit(const MoeProblem& p, std::int64_t assignment, int bank, int unit,
                                           float gate_sum, float up_sum) {
  float value = gated_unit(gate_sum * p.gate[kShared].factor(bank), up_sum * p.up[kShared].factor(bank));
  if constexpr (kShared) value *= p.weights[assignment / p.slots * p.weights_stride + assignment % p.slots];
  p.hidden[assignment * p.hidden_width + unit] = __float2bfloat16_rn(value);
}

}  // namespace inkstone::cuda
