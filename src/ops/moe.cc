// SPDX-License-Identifier: Apache-2.0
#include "ops/moe.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {
namespace {

void check_experts(const GatedMatrix& w13, const MatrixBank& w2, std::int64_t width, std::int64_t hidden) {
  INK_CHECK(w13.gate.banks == w13.up.banks && w13.gate.banks == w2.banks,
            "as many experts in both projections");
  INK_CHECK(w13.gate.columns == width && w13.up.columns == width && w2.rows == width,
            "experts map the width of x");
  INK_CHECK(w13.gate.rows == hidden && w13.up.rows == hidden && w2.columns == hidden,
            "expert width of hidden");
}

}  // namespace

void check(const RouteArgs& args) {
  expect_rank(args.logits, 2, "logits");
  expect_type(args.logits, ScalarType::kF32, "logits");
  const std::int64_t rows = args.logits.rows();
  const std::int64_t chosen = args.experts.shape[1];
  const std::int64_t shared = args.logits.shape[1] - args.bias.rows();
  expect_type(args.bias, ScalarType::kF32, "bias");
  expect_shape(args.global_scale, {1}, "global_scale");
  expect_type(args.global_scale, ScalarType::kF32, "global_scale");
  INK_CHECK(shared >= 0 && chosen <= args.bias.rows(), "no more chosen experts than there are");
  expect_shape(args.experts, {rows, chosen}, "experts");
  expect_type(args.experts, ScalarType::kI32, "experts");
  expect_shape(args.weights, {rows, chosen + shared}, "weights");
  expect_type(args.weights, ScalarType::kF32, "weights");
  if (args.row_sequence.empty()) return;
  expect_shape(args.row_sequence, {rows}, "row_sequence");
  expect_type(args.row_sequence, ScalarType::kI32, "row_sequence");
}

Cost cost(const RouteArgs& args) {
  return {8.0 * static_cast<double>(args.logits.shape.num_elements()),
          static_cast<double>(args.logits.bytes() + args.bias.bytes() + args.experts.bytes() +
                              args.weights.bytes())};
}

void check(const MoeArgs& args) {
  expect_rank(args.x, 2, "x");
  expect_activation(args.x, "x");
  expect_type(args.experts, ScalarType::kI32, "experts");
  expect_type(args.weights, ScalarType::kF32, "weights");
  const std::int64_t rows = args.x.rows();
  const std::int64_t slots = args.weights.shape[1];
  const std::int64_t shared = args.shared_w2.empty() ? 0 : args.shared_w2.banks;
  expect_shape(args.experts, {rows, slots - shared}, "experts");
  expect_shape(args.weights, {rows, slots}, "weights");
  expect_shape(args.hidden, {rows, slots, args.routed_w2.columns}, "hidden");
  expect_type(args.hidden, args.x.type, "hidden");
  check_experts(args.routed_w13, args.routed_w2, args.x.shape[1], args.hidden.shape[2]);
  if (shared > 0) check_experts(args.shared_w13, args.shared_w2, args.x.shape[1], args.hidden.shape[2]);
  expect_same(args.out, args.x, "out");
}

Cost cost(const MoeArgs& args) {
  const auto rows = static_cast<double>(args.x.rows());
  const auto chosen = static_cast<double>(args.experts.shape[1]);
  const auto slots = static_cast<double>(args.weights.shape[1]);
  const auto expert = static_cast<double>(args.routed_w2.rows * args.routed_w2.columns);
  const auto routed =
      static_cast<double>(2 * args.routed_w13.gate.bank_bytes() + args.routed_w2.bank_bytes());
  double bytes = rows * chosen * routed + static_cast<double>(args.x.bytes() + args.out.bytes());
  if (!args.shared_w2.empty()) {
    const std::int64_t one = 2 * args.shared_w13.gate.bank_bytes() + args.shared_w2.bank_bytes();
    bytes += static_cast<double>(args.shared_w2.banks * one);
  }
  return {rows * slots * 6 * expert, bytes};
}

}  // namespace inkstone::ops
