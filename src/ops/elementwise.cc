// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {

void check(const AddArgs& args) {
  expect_activation(args.x, "x");
  expect_same(args.y, args.x, "y");
  expect_same(args.out, args.x, "out");
}

Cost cost(const AddArgs& args) {
  return {static_cast<double>(args.x.shape.num_elements()), static_cast<double>(3 * args.x.bytes())};
}

void check(const LogScaleArgs& args) {
  expect_rank(args.x, 2, "x");
  expect_activation(args.x, "x");
  expect_shape(args.row_position, {args.x.rows()}, "row_position");
  expect_type(args.row_position, ScalarType::kI32, "row_position");
  INK_CHECK(args.floor > 0, "floor is positive");
}

Cost cost(const LogScaleArgs& args) {
  return {static_cast<double>(args.x.shape.num_elements()), static_cast<double>(2 * args.x.bytes())};
}

void check(const GeluArgs& args) {
  expect_rank(args.x, 2, "x");
  expect_activation(args.x, "x");
}

Cost cost(const GeluArgs& args) {
  return {8.0 * static_cast<double>(args.x.shape.num_elements()), static_cast<double>(2 * args.x.bytes())};
}

}  // namespace inkstone::ops
