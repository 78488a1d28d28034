// SPDX-License-Identifier: Apache-2.0
// ops/conv.h - short convolution: depthwise, causal, with an inner residual (`model.md` 3.2).
#pragma once

#include "ops/cost.h"
#include "ops/packed_rows.h"
#include "ops/state_rows.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// out[t][c] = x[t][c] + sum_k weight[c][k] * x[t - (W - 1) + k][c]; inputs of positions before the batch come
// from `state`, positions below zero are zero. Afterwards the state holds the inputs of the batch's last
// positions, as many as min(rows of the sequence, ring_rows - (W - 1)).
struct ShortConvArgs {
  TensorView x;       // [T, C] f32 or bf16
  TensorView weight;  // [C, W] bf16
  PackedRows rows;
  StateRows state;  // ring of [N, C] as x
  TensorView out;   // [T, C] as x, or f32; must not alias x
};

void check(const ShortConvArgs& args);
Cost cost(const ShortConvArgs& args);

class ConvOps {
 public:
  virtual ~ConvOps() = default;
  virtual void short_conv(const ShortConvArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
