// SPDX-License-Identifier: Apache-2.0
// ops/packed_rows.h - rows of several sequences packed one behind the other, and where each row stands in its
// sequence.
#pragma once

#include "tensor/tensor_view.h"

namespace inkstone::ops {

// The batch of one step: T rows of S sequences; rows of one sequence are consecutive positions. All tensors
// are i32 and in the backend's memory, so that a captured graph serves every batch of its size. Rows behind
// the last sequence are padding: row_sequence is -1 there, and no operation writes state for them.
struct PackedRows {
  TensorView row_sequence;    // [T] sequence of a row, -1 for padding
  TensorView row_position;    // [T] absolute position of a row in its sequence
  TensorView row_begin;       // [S + 1] rows of sequence s are [row_begin[s], row_begin[s + 1])
  TensorView first_position;  // [S] position of the first of them; everything before lies in the state
  // Most rows that any one sequence has; host knowledge for planning, an upper bound inside a captured graph.
  std::int64_t max_sequence_rows = 0;

  [[nodiscard]] std::int64_t num_rows() const { return row_sequence.rows(); }
  [[nodiscard]] std::int64_t num_sequences() const { return first_position.rows(); }
};

void check(const PackedRows& rows);

}  // namespace inkstone::ops
