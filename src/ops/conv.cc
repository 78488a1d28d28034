// SPDX-License-Identifier: Apache-2.0
#include "ops/conv.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {

void check(const ShortConvArgs& args) {
  check(args.rows);
  check(args.state, args.rows.num_sequences());
  expect_rank(args.x, 2, "x");
  expect_activation(args.x, "x");
  INK_CHECK(args.x.rows() == args.rows.num_rows(), "one row of x per row of the batch");
  expect_rank(args.weight, 2, "weight");
  expect_type(args.weight, ScalarType::kBF16, "weight");
  INK_CHECK(args.weight.shape[0] == args.x.shape[1], "one filter per channel");
  expect_shape(args.out, args.x.shape, "out");
  INK_CHECK(args.out.type == args.x.type || args.out.type == ScalarType::kF32, "out is as x, or F32");
  INK_CHECK(args.out.data != args.x.data, "out must not alias x");
  INK_CHECK(!args.state.paged() && args.state.ring_rows >= args.weight.shape[1],
            "the state is a ring of a window");
  expect_rank(args.state.storage, 2, "state storage");
  INK_CHECK(args.state.storage.shape[1] == args.x.shape[1], "state rows are as wide as x");
  expect_type(args.state.storage, args.x.type, "state storage");
}

Cost cost(const ShortConvArgs& args) {
  const auto elements = static_cast<double>(args.x.shape.num_elements());
  const std::int64_t older = args.rows.num_sequences() * (args.weight.shape[1] - 1) * args.x.shape[1];
  return {
      2 * elements * static_cast<double>(args.weight.shape[1]),
      static_cast<double>(2 * args.x.bytes() + args.weight.bytes() + 2 * older * size_bytes(args.x.type))};
}

}  // namespace inkstone::ops
