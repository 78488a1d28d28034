// SPDX-License-Identifier: Apache-2.0
#include "ops/compositions.h"

#include "ops/argument_checks.h"
#include "ops/backend.h"

namespace inkstone::ops {

void check(const EndBranchArgs& args) {
  check(args.conv);
  check(args.add);
  check(args.norm);
  INK_CHECK(args.add.y.data == args.conv.out.data, "the convolution's result is added");
  INK_CHECK(args.add.x.data == args.add.out.data && args.norm.x.data == args.add.out.data,
            "the residual stream is summed in place and normed");
  INK_CHECK(args.norm.out.data != args.norm.x.data, "the norm leaves the residual stream as it is");
}

void check(const PrepareHeadsArgs& args) {
  check(args.k_conv);
  check(args.v_conv);
  check(args.q_norm);
  check(args.k_norm);
  INK_CHECK(args.q_norm.x.data == args.q_norm.out.data, "queries are normed in place");
  INK_CHECK(args.k_norm.x.data == args.k_conv.out.data && args.k_norm.out.data == args.k_conv.out.data,
            "keys are convolved, then normed in place");
  INK_CHECK(args.q_scale.has_value() == args.rel_scale.has_value(), "both are scaled or none");
  if (args.q_scale) check(*args.q_scale);
  if (args.rel_scale) check(*args.rel_scale);
  if (!args.store) return;
  check(*args.store);
  INK_CHECK(args.store->k.data == args.k_conv.out.data && args.store->v.data == args.v_conv.out.data,
            "what was prepared is stored");
}

void check(const MixtureArgs& args) {
  check(args.gate);
  check(args.route);
  check(args.moe);
  INK_CHECK(args.gate.x.data == args.moe.x.data, "router and experts read one input");
  INK_CHECK(args.route.logits.data == args.gate.out.data, "the router's logits decide");
  INK_CHECK(
      args.moe.experts.data == args.route.experts.data && args.moe.weights.data == args.route.weights.data,
      "the chosen experts are mixed");
}

void Backend::end_branch(const EndBranchArgs& args, Stream& stream) {
  short_conv(args.conv, stream);
  add(args.add, stream);
  rms_norm(args.norm, stream);
}

void Backend::prepare_heads(const PrepareHeadsArgs& args, Stream& stream) {
  short_conv(args.k_conv, stream);
  short_conv(args.v_conv, stream);
  rms_norm(args.q_norm, stream);
  rms_norm(args.k_norm, stream);
  if (args.q_scale) log_scale(*args.q_scale, stream);
  if (args.rel_scale) log_scale(*args.rel_scale, stream);
  if (args.store) store_kv(*args.store, stream);
}

void Backend::mixture(const MixtureArgs& args, Stream& stream) {
  linear(args.gate, stream);
  route(args.route, stream);
  moe(args.moe, stream);
}

}  // namespace inkstone::ops
