// SPDX-License-Identifier: Apache-2.0
// ops/linear.h - products of activations with weights as stored: y = W x.
#pragma once

#include <span>

#include "ops/cost.h"
#include "ops/stream.h"
#include "tensor/matrix_bank.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// Rows come in two numeric classes (`architecture.md` 1.2): step rows (decode, verify, the head) and prefill
// rows. Within a class the bits of a row depend on that row alone, whatever the number of rows. `step_rows`
// of a call says how many leading rows are step rows; the others are prefill rows. Host backends compute both
// alike.

// Several weights of one input, outputs side by side: out = [W0 x | W1 x | ...] * alpha * out_scale.
struct LinearArgs {
  TensorView x;                         // [T, K] f32 or bf16
  std::span<const MatrixBank> weights;  // each one bank [Ni, K]
  TensorView out;                       // [T, sum Ni] as x, or f32
  float alpha = 1;
  TensorView out_scale{};  // empty, or one number, bf16 or f32, in backend memory
  std::int64_t step_rows = 0;
  // Not to be rounded by a backend that otherwise rounds f32 inputs: the router's logits, which choose
  // between experts that may be close.
  bool keep_input = false;
  TensorView x_rest{};  // empty, or as x: the input is x + x_rest, out is f32 (RmsNormArgs::rest)
};

// out = silu(gate x) * (up x), the two products rounded to the type of x before (`model.md` 3.3).
struct GatedLinearArgs {
  TensorView x;        // [T, K] f32 or bf16
  GatedMatrix weight;  // one bank, each half [F, K]
  TensorView out;      // [T, F] as x
  std::int64_t step_rows = 0;
};

void check(const LinearArgs& args);
Cost cost(const LinearArgs& args);
void check(const GatedLinearArgs& args);
Cost cost(const GatedLinearArgs& args);

class LinearOps {
 public:
  virtual ~LinearOps() = default;
  virtual void linear(const LinearArgs& args, Stream& stream) = 0;
  virtual void gated_linear(const GatedLinearArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
