// SPDX-License-Identifier: Apache-2.0
// ops/state_rows.h - per-sequence state as rows addressed by absolute position: one rule for keys and values
// of full layers (pages), for those of sliding layers (rings) and for the inputs of short convolutions
// (rings).
#pragma once

#include "tensor/tensor_view.h"

namespace inkstone::ops {

inline constexpr std::int64_t kPageTokens = 64;  // P

// One kind of state of one layer. The row of position p of sequence s is
//   pages: table[s][p / 64] * 64 + p % 64
//   ring:  table[s] * ring_rows + p % ring_rows
// and nobody may read a row that was not written for that position. A table entry of -1 has no storage: rows
// that would go there are dropped (padding sequences).
struct StateRows {
  TensorView storage;          // [N, ...] f32 or bf16
  TensorView table;            // i32: pages [S, max_pages], ring [S]
  std::int64_t ring_rows = 0;  // 0 = pages

  [[nodiscard]] bool paged() const { return ring_rows == 0; }
};

// Host arithmetic of the rule, for host backends and tests. -1 where there is no storage.
std::int64_t row_index(const StateRows& state, std::int64_t sequence, std::int64_t position);

void check(const StateRows& state, std::int64_t num_sequences);

}  // namespace inkstone::ops
