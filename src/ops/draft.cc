// SPDX-License-Identifier: Apache-2.0
#include "ops/draft.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {

void check(const AdvanceWindowsArgs& args) {
  const std::int64_t windows = args.sequence.rows();
  expect_rank(args.first_position, 1, "first_position");
  expect_rank(args.history, 2, "history");
  expect_rank(args.ids, 2, "ids");
  const std::int64_t rows = windows * args.history.shape[1];
  const std::int64_t depths = args.ids.rows();
  expect_shape(args.row_begin, {args.first_position.rows() + 1}, "row_begin");
  if (!args.fed.empty() || !args.drawn.empty()) expect_shape(args.drawn, args.fed.shape, "drawn");
  expect_shape(args.sequence, {windows}, "sequence");
  expect_shape(args.slots, {windows}, "slots");
  INK_CHECK(args.history.rows() == windows && args.ring_rows > 0, "a history for each window");
  expect_shape(args.num_right, {windows}, "num_right");
  expect_shape(args.row_begins_at, {windows}, "row_begins_at");
  expect_shape(args.row_position, {rows}, "row_position");
  expect_shape(args.ring_index, {rows}, "ring_index");
  expect_shape(args.ids, {depths, rows}, "ids");
  expect_shape(args.draw_position, {depths, windows}, "draw_position");
  for (const TensorView* all :
       {&args.row_begin, &args.first_position, &args.sequence, &args.slots, &args.history, &args.num_right,
        &args.row_begins_at, &args.row_position, &args.ring_index, &args.ids, &args.draw_position})
    expect_type(*all, ScalarType::kI32, "arrays of windows");
}

Cost cost(const AdvanceWindowsArgs& args) {
  return {0, static_cast<double>(args.fed.bytes() + args.drawn.bytes() + args.history.bytes() +
                                 args.row_position.bytes() + args.ring_index.bytes() + args.ids.bytes())};
}

}  // namespace inkstone::ops
