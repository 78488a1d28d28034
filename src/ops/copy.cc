// SPDX-License-Identifier: Apache-2.0
#include "ops/copy.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {
namespace {

void check_move(const TensorView& index, const TensorView& x, const TensorView& out) {
  expect_rank(index, 1, "index");
  expect_type(index, ScalarType::kI32, "index");
  expect_rank(x, 2, "x");
  expect_rank(out, 2, "out");
  INK_CHECK(x.shape[1] == out.shape[1], "rows keep their width");
  if (x.type == out.type) return;
  expect_activation(x, "x");
  expect_activation(out, "out");
}

}  // namespace

void check(const GatherRowsArgs& args) {
  check_move(args.index, args.x, args.out);
  INK_CHECK(args.out.rows() == args.index.rows(), "one row of out per index");
}

Cost cost(const GatherRowsArgs& args) {
  return {0, static_cast<double>(2 * args.out.bytes() + args.index.bytes())};
}

void check(const ScatterRowsArgs& args) {
  check_move(args.index, args.x, args.out);
  INK_CHECK(args.x.rows() == args.index.rows(), "one index per row of x");
}

Cost cost(const ScatterRowsArgs& args) {
  return {0, static_cast<double>(2 * args.x.bytes() + args.index.bytes())};
}

}  // namespace inkstone::ops
