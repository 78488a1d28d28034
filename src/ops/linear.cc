// SPDX-License-Identifier: Apache-2.0
#include "ops/linear.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {
namespace {

// Multiplications and additions, and the bytes of one weight read once.
Cost product_cost(const TensorView& x, const MatrixBank& weight) {
  return {2.0 * static_cast<double>(x.rows() * weight.rows * weight.columns),
          static_cast<double>(weight.bank_bytes())};
}

}  // namespace

void check(const LinearArgs& args) {
  expect_rank(args.x, 2, "x");
  expect_activation(args.x, "x");
  std::int64_t outputs = 0;
  for (const MatrixBank& weight : args.weights) {
    INK_CHECK(weight.banks == 1, "a linear weight is one matrix");
    INK_CHECK(weight.columns == args.x.shape[1], "weight columns equal the width of x");
    outputs += weight.rows;
  }
  expect_shape(args.out, {args.x.shape[0], outputs}, "out");
  INK_CHECK(args.out.type == args.x.type || args.out.type == ScalarType::kF32, "out is as x, or F32");
  if (!args.out_scale.empty()) expect_shape(args.out_scale, {1}, "out_scale");
  if (args.x_rest.empty()) return;
  expect_same(args.x_rest, args.x, "x_rest");
  expect_type(args.out, ScalarType::kF32, "out");
}

Cost cost(const LinearArgs& args) {
  Cost total{0, static_cast<double>(args.x.bytes() + args.out.bytes())};
  for (const MatrixBank& weight : args.weights) {
    const Cost one = product_cost(args.x, weight);
    total.flops += one.flops;
    total.bytes += one.bytes;
  }
  return total;
}

void check(const GatedLinearArgs& args) {
  expect_rank(args.x, 2, "x");
  expect_activation(args.x, "x");
  for (const MatrixBank* half : {&args.weight.gate, &args.weight.up}) {
    INK_CHECK(half->banks == 1 && half->columns == args.x.shape[1],
              "each half is one matrix over the width of x");
  }
  INK_CHECK(args.weight.gate.rows == args.weight.up.rows, "as many gate rows as up rows");
  expect_shape(args.out, {args.x.shape[0], args.weight.gate.rows}, "out");
  expect_type(args.out, args.x.type, "out");
}

Cost cost(const GatedLinearArgs& args) {
  const Cost gate = product_cost(args.x, args.weight.gate);
  const auto outputs = static_cast<double>(args.out.shape.num_elements());
  return {2 * gate.flops + 4 * outputs,
          2 * gate.bytes + static_cast<double>(args.x.bytes() + args.out.bytes())};
}

}  // namespace inkstone::ops
