// SPDX-License-Identifier: Apache-2.0
// ops/elementwise.h - sums and scalings of activations.
#pragma once

#include "ops/cost.h"
#include "ops/packed_rows.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

struct AddArgs {
  TensorView x;    // [T, M] f32 or bf16
  TensorView y;    // as x
  TensorView out;  // as x; may alias either
};

// x *= tau(position), tau(p) = 1 + alpha * ln(max((p + 1) / floor, 1)) in f32 (`model.md` 5.4).
struct LogScaleArgs {
  TensorView x;             // [T, N] f32 or bf16, in place
  TensorView row_position;  // [T] i32
  float floor = 1;
  float alpha = 0;
};

// x = x * (1 + erf(x / sqrt 2)) / 2, in place.
struct GeluArgs {
  TensorView x;  // [T, N] f32 or bf16
};

void check(const AddArgs& args);
Cost cost(const AddArgs& args);
void check(const LogScaleArgs& args);
Cost cost(const LogScaleArgs& args);
void check(const GeluArgs& args);
Cost cost(const GeluArgs& args);

class ElementwiseOps {
 public:
  virtual ~ElementwiseOps() = default;
  virtual void add(const AddArgs& args, Stream& stream) = 0;
  virtual void log_scale(const LogScaleArgs& args, Stream& stream) = 0;
  virtual void gelu(const GeluArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
