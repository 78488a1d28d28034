// SPDX-License-Identifier: Apache-2.0
// ops/quant.h - NVFP4 activations: the specification for 4-bit products on Blackwell (`checkpoint.md` 5.4).
#pragma once

#include "ops/cost.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// Rounds x to the values that NVFP4 can hold: s = amax / 2688; per 16 columns sf = e4m3(max|x| / 6 / s);
// value = e2m1(x / (sf * s)) * sf * s, all zero where sf rounds to zero.
struct RoundNvfp4Args {
  TensorView x;           // [T, K] f32 or bf16, K a multiple of 16
  TensorView input_amax;  // [1] bf16
  TensorView out;         // as x; may alias x
};

void check(const RoundNvfp4Args& args);
Cost cost(const RoundNvfp4Args& args);

class QuantOps {
 public:
  virtual ~QuantOps() = default;
  virtual void round_nvfp4(const RoundNvfp4Args& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
