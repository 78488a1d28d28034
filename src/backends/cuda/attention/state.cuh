// SPDX-License-Identifier: Apache-2.0
// backends/cuda/attention/state.cuh - where keys and values of older positions lie.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/primitives/simt.cuh"
#include "ops/state_rows.h"

namespace inkstone::cuda {

inline constexpr int kHeadSize = 128;  // D, of every layer of the family

// ops::StateRows in device terms. Offsets exceed 32 bits at a million tokens.
struct KvState {
  bf16* data;
  const std::int32_t* table;
  std::int64_t table_stride;  // entries per sequence
  int max_pages;              // 0 for rings
  int ring_rows;              // 0 for pages

  // Row of a position, -1 where there is no storage.
  __device__ std::int64_t row(int sequence, int position) const {
    if (ring_rows > 0) {
      const std::int64_t slot = table[sequence];
      return slot < 0 ? -1 : slot * ring_rows + position % ring_rows;
    }
    const int page_idx = position / static_cast<int>(ops::kPageTokens);
    if (page_idx >= max_pages) return -1;
    const std::int64_t page = table[sequence * table_stride + page_idx];
    return page < 0 ? -1 : page * ops::kPageTokens + position % static_cast<int>(ops::kPageTokens);
  }
};

inline KvState kv_state(const ops::StateRows& state) {
  expect_bf16(state.storage);
  INK_CHECK(state.storage.contiguous(), "rows of keys and values follow each other");
  return {state.storage.as<bf16>(), state.table.as<std::int32_t>(), state.table.row_stride,
          state.paged() ? static_cast<int>(state.table.shape[1]) : 0, static_cast<int>(state.ring_rows)};
}

}  // namespace inkstone::cuda
