// SPDX-License-Identifier: Apache-2.0
#include "ops/embed.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {

void check(const EmbedArgs& args) {
  expect_rank(args.ids, 1, "ids");
  expect_type(args.ids, ScalarType::kI32, "ids");
  expect_rank(args.table, 2, "table");
  expect_type(args.table, ScalarType::kBF16, "table");
  expect_shape(args.out, {args.ids.rows(), args.table.shape[1]}, "out");
  expect_activation(args.out, "out");
}

Cost cost(const EmbedArgs& args) {
  const auto elements = static_cast<double>(args.out.shape.num_elements());
  return {0, elements * static_cast<double>(size_bytes(args.table.type) + size_bytes(args.out.type))};
}

void check(const EmbedSumArgs& args) {
  expect_rank(args.levels, 2, "levels");
  expect_type(args.levels, ScalarType::kI32, "levels");
  expect_rank(args.table, 2, "table");
  expect_type(args.table, ScalarType::kBF16, "table");
  INK_CHECK(args.table.shape[0] == args.levels.shape[1] * args.num_levels, "one table row per bin and level");
  expect_shape(args.out, {args.levels.shape[0], args.table.shape[1]}, "out");
  expect_activation(args.out, "out");
}

Cost cost(const EmbedSumArgs& args) {
  const auto sums = static_cast<double>(args.levels.shape.num_elements() * args.table.shape[1]);
  return {sums, sums * 2 + static_cast<double>(args.out.bytes())};
}

}  // namespace inkstone::ops
