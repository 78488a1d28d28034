// SPDX-License-Identifier: Apache-2.0
#include "ops/quant.h"

#include "ops/argument_checks.h"
#include "tensor/matrix_bank.h"

namespace inkstone::ops {

void check(const RoundNvfp4Args& args) {
  expect_rank(args.x, 2, "x");
  expect_activation(args.x, "x");
  INK_CHECK(args.x.shape[1] % MatrixBank::kColumnsPerScale == 0, "columns are a multiple of 16");
  expect_shape(args.input_amax, {1}, "input_amax");
  expect_type(args.input_amax, ScalarType::kBF16, "input_amax");
  expect_same(args.out, args.x, "out");
}

Cost cost(const RoundNvfp4Args& args) {
  return {8.0 * static_cast<double>(args.x.shape.num_elements()), static_cast<double>(2 * args.x.bytes())};
}

}  // namespace inkstone::ops
