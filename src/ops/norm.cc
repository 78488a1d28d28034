// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {

void check(const RmsNormArgs& args) {
  const int rank = args.x.shape.rank();
  INK_CHECK(rank == 2 || rank == 3, to_string(args.x.shape));
  expect_activation(args.x, "x");
  expect_shape(args.weight, {args.x.shape[rank - 1]}, "weight");
  expect_type(args.weight, ScalarType::kBF16, "weight");
  expect_shape(args.out, args.x.shape, "out");
  const bool rounds = args.x.type == ScalarType::kF32 && args.out.type == ScalarType::kBF16;
  INK_CHECK(rounds || args.out.type == args.x.type, "out is as x, or BF16 of an F32 x");
  if (args.rest.empty()) return;
  INK_CHECK(rounds, "only rounding leaves a rest");
  expect_same(args.rest, args.out, "rest");
}

Cost cost(const RmsNormArgs& args) {
  const auto elements = static_cast<double>(args.x.shape.num_elements());
  return {4 * elements, static_cast<double>(2 * args.x.bytes() + args.weight.bytes())};
}

}  // namespace inkstone::ops
