// SPDX-License-Identifier: Apache-2.0
#include "ops/state_rows.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {

std::int64_t row_index(const StateRows& state, std::int64_t sequence, std::int64_t position) {
  if (!state.paged()) {
    const std::int64_t slot = state.table.as<std::int32_t>()[sequence];
    return slot < 0 ? -1 : slot * state.ring_rows + position % state.ring_rows;
  }
  const std::int64_t page_idx = position / kPageTokens;
  if (page_idx >= state.table.shape[1]) return -1;
  const std::int64_t page = state.table.row<std::int32_t>(sequence)[page_idx];
  return page < 0 ? -1 : page * kPageTokens + position % kPageTokens;
}

void check(const StateRows& state, std::int64_t num_sequences) {
  expect_activation(state.storage, "state storage");
  expect_type(state.table, ScalarType::kI32, "state table");
  expect_rank(state.table, state.paged() ? 2 : 1, "state table");
  INK_CHECK(state.table.shape[0] == num_sequences, "state table has one entry per sequence");
  INK_CHECK(state.ring_rows >= 0);
}

}  // namespace inkstone::ops
