// SPDX-License-Identifier: Apache-2.0
// ops/compositions.h - operations that are made of others. A backend may run one as fewer launches; the
// results are those of the parts in their order, bit for bit.
#pragma once

#include <optional>

#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/stream.h"

namespace inkstone::ops {

// The end of a branch of a block: its short convolution, the sum with the residual stream, the norm of what
// follows. `conv.out` is scratch: nobody may rely on its contents afterwards.
struct EndBranchArgs {
  ShortConvArgs conv;
  AddArgs add;       // x and out: the residual stream; y: conv.out
  RmsNormArgs norm;  // x: the residual stream
};

// What lies between the fused projection and attention.
struct PrepareHeadsArgs {
  ShortConvArgs k_conv, v_conv;
  RmsNormArgs q_norm, k_norm;                      // in place; k: k_conv.out by heads
  std::optional<LogScaleArgs> q_scale, rel_scale;  // both or none
  std::optional<StoreKvArgs> store;                // where it may run before attention (StoreKvArgs)
};

// Router, choice and mixture of one input.
struct MixtureArgs {
  LinearArgs gate;
  RouteArgs route;  // logits: gate.out
  MoeArgs moe;      // experts and weights: those of route; x: that of gate
};

void check(const EndBranchArgs& args);
void check(const PrepareHeadsArgs& args);
void check(const MixtureArgs& args);

class Compositions {
 public:
  virtual ~Compositions() = default;
  virtual void end_branch(const EndBranchArgs& args, Stream& stream) = 0;
  virtual void prepare_heads(const PrepareHeadsArgs& args, Stream& stream) = 0;
  virtual void mixture(const MixtureArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
