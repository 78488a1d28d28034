// SPDX-License-Identifier: Apache-2.0
// ops/norm.h - root-mean-square normalisation.
#pragma once

#include "ops/cost.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// out = x / sqrt(mean(x^2) + eps) * weight over the last axis, in f32, rounded once (`model.md` 3.1).
struct RmsNormArgs {
  TensorView x;       // [T, M], or [T, H, D] to normalise each head; f32 or bf16
  TensorView weight;  // [M] or [D] bf16
  TensorView out;     // as x, where it may alias x; or bf16 of an f32 x
  float eps = 0;      // added to the mean square, before the root
  // Empty, or as a bf16 out of an f32 x: what rounding took from out, itself rounded. Their sum is the norm
  // to 16 bits.
  TensorView rest{};
};

void check(const RmsNormArgs& args);
Cost cost(const RmsNormArgs& args);

class NormOps {
 public:
  virtual ~NormOps() = default;
  virtual void rms_norm(const RmsNormArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
