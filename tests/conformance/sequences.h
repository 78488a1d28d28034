// SPDX-License-Identifier: Apache-2.0
// tests/conformance/sequences.h - batches of sequences and the state behind them, for the operations that
// read both.
#pragma once

#include <vector>

#include "ops/packed_rows.h"
#include "ops/state_rows.h"
#include "tests/conformance/rig.h"

namespace inkstone::conformance {

// Rows of one sequence in a batch: positions [first, first + rows).
struct Span {
  std::int64_t first = 0;
  std::int64_t rows = 0;
};

// The tensors of ops::PackedRows for a batch, with `padding` rows behind the last sequence.
struct HostRows {
  HostTensor row_sequence, row_position, row_begin, first_position;
  std::int64_t max_sequence_rows = 0;

  explicit HostRows(const std::vector<Span>& spans, std::int64_t padding = 0);
  ops::PackedRows put(Side& side);
};

// State storage with a table that scatters sequences over it: pages in random order, or ring slots.
struct HostState {
  HostTensor storage, table;
  std::int64_t ring_rows = 0;

  // `row` is the shape of one row; room for `max_position` positions of each sequence.
  HostState(Random& random, ScalarType type, std::int64_t sequences, std::int64_t max_position,
            std::int64_t ring, const std::vector<std::int64_t>& row);
  // Random numbers in the rows of positions [begin, end) of a sequence.
  void fill(Random& random, std::int64_t sequence, std::int64_t begin, std::int64_t end, float deviation);
  ops::StateRows put(Side& side);
};

}  // namespace inkstone::conformance
