// SPDX-License-Identifier: Apache-2.0
#include "ops/packed_rows.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {

void check(const PackedRows& rows) {
  expect_rank(rows.row_sequence, 1, "row_sequence");
  expect_rank(rows.first_position, 1, "first_position");
  expect_shape(rows.row_position, {rows.num_rows()}, "row_position");
  expect_shape(rows.row_begin, {rows.num_sequences() + 1}, "row_begin");
  expect_type(rows.row_sequence, ScalarType::kI32, "row_sequence");
  expect_type(rows.row_position, ScalarType::kI32, "row_position");
  expect_type(rows.row_begin, ScalarType::kI32, "row_begin");
  expect_type(rows.first_position, ScalarType::kI32, "first_position");
}

}  // namespace inkstone::ops
