// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include "ops/argument_checks.h"

namespace inkstone::ops {
namespace {

void check_kv(const TensorView& k, const TensorView& v, const PackedRows& rows, const StateRows& state) {
  check(rows);
  check(state, rows.num_sequences());
  expect_rank(k, 3, "k");
  expect_activation(k, "k");
  expect_same(v, k, "v");
  INK_CHECK(k.rows() == rows.num_rows(), "one row of k per row of the batch");
  expect_rank(state.storage, 4, "state storage");
  expect_shape(state.storage, {state.storage.shape[0], k.shape[1], 2, k.shape[2]}, "state storage");
  expect_type(state.storage, k.type, "state storage");
}

}  // namespace

void check(const AttentionArgs& args) {
  check_kv(args.k, args.v, args.rows, args.older);
  expect_rank(args.q, 3, "q");
  expect_shape(args.q, {args.k.rows(), args.q.shape[1], args.k.shape[2]}, "q");
  expect_type(args.q, args.k.type, "q");
  INK_CHECK(args.q.shape[1] % args.k.shape[1] == 0, "query heads are a multiple of key heads");
  expect_rank(args.rel_proj, 2, "rel_proj");
  expect_type(args.rel_proj, ScalarType::kBF16, "rel_proj");
  expect_shape(args.rel, {args.k.rows(), args.q.shape[1], args.rel_proj.shape[0]}, "rel");
  expect_type(args.rel, args.q.type, "rel");
  expect_same(args.out, args.q, "out");
  INK_CHECK(args.window >= 0);
}

// Keys behind the batch are known to the device only: the cost counts the batch's own keys. Benches that know
// the lengths add what they read.
Cost cost(const AttentionArgs& args) {
  const auto pairs = static_cast<double>(args.q.rows()) * static_cast<double>(args.q.shape[1]);
  const double flops = pairs * static_cast<double>(4 * args.q.shape[2] + 2 * args.rel_proj.shape[0]);
  return {flops,
          static_cast<double>(2 * args.q.bytes() + args.k.bytes() + args.v.bytes() + args.rel.bytes())};
}

void check(const StoreKvArgs& args) { check_kv(args.k, args.v, args.rows, args.state); }

Cost cost(const StoreKvArgs& args) { return {0, static_cast<double>(2 * (args.k.bytes() + args.v.bytes()))}; }

}  // namespace inkstone::ops
