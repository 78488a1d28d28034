// SPDX-License-Identifier: Apache-2.0
// ops/moe.h - router with expert sinks, and the mixture of experts (`model.md` 7).
#pragma once

#include "ops/cost.h"
#include "ops/stream.h"
#include "tensor/matrix_bank.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// Chooses the K experts with the largest sigmoid(logit) + bias (ties: lowest index). Weights of the K chosen,
// best first, then the S shared: sigmoid(l_a) / sum over those K + S of sigmoid(l_b), times route_scale *
// global_scale, in the log form.
struct RouteArgs {
  TensorView logits;        // [T, E + S] f32: routed first, shared last
  TensorView bias;          // [E] f32, for the choice only
  TensorView global_scale;  // [1] f32
  float route_scale = 1;
  TensorView experts;         // [T, K] i32
  TensorView weights;         // [T, K + S] f32
  TensorView row_sequence{};  // empty, or [T] i32: rows of -1 are padding and choose expert -1, K times
};

// out = sum_k weight_k * W2_k (silu(g_k) * u_k) + sum_s W2_s (silu(g_s) * u_s * gamma_s): the routed weight
// after the down projection, the shared gamma before it. Experts are summed in the order of `experts`, then
// the shared ones. An expert id of -1 (padding rows) contributes nothing, and such a row's output is zero.
struct MoeArgs {
  TensorView x;                // [T, M] f32 or bf16
  TensorView experts;          // [T, K] i32
  TensorView weights;          // [T, K + S] f32
  GatedMatrix routed_w13;      // E banks of [F, M]
  MatrixBank routed_w2;        // E banks of [M, F]
  GatedMatrix shared_w13;      // S banks of [F, M]
  MatrixBank shared_w2;        // S banks of [M, F]
  TensorView hidden;           // [T, K + S, F] as x: scratch, what the down projections read
  TensorView out;              // [T, M] as x
  std::int64_t step_rows = 0;  // leading rows of the step class, see ops/linear.h
  bool nvfp4_activations =
      false;  // W4A4: inputs of quantised products are rounded to NVFP4 (`checkpoint.md` 5.4)
};

void check(const RouteArgs& args);
Cost cost(const RouteArgs& args);
void check(const MoeArgs& args);
Cost cost(
    const MoeArgs& args);  // every chosen expert read once per row: an upper bound where rows share experts

class MoeOps {
 public:
  virtual ~MoeOps() = default;
  virtual void route(const RouteArgs& args, Stream& stream) = 0;
  virtual void moe(const MoeArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
