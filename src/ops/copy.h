// SPDX-License-Identifier: Apache-2.0
// ops/copy.h - moving rows.
#pragma once

#include "ops/cost.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// out[i] = x[index[i]]; a negative index leaves out[i] as it is.
struct GatherRowsArgs {
  TensorView x;      // [N, C] any type
  TensorView index;  // [T] i32
  TensorView out;    // [T, C] as x, or f32 from bf16 and back
};

// out[index[i]] = x[i]; a negative index drops the row. Indices are distinct.
struct ScatterRowsArgs {
  TensorView x;      // [T, C] any type
  TensorView index;  // [T] i32
  TensorView out;    // [N, C] as x, or bf16 from f32 and back
};

void check(const GatherRowsArgs& args);
Cost cost(const GatherRowsArgs& args);
void check(const ScatterRowsArgs& args);
Cost cost(const ScatterRowsArgs& args);

class CopyOps {
 public:
  virtual ~CopyOps() = default;
  virtual void gather_rows(const GatherRowsArgs& args, Stream& stream) = 0;
  virtual void scatter_rows(const ScatterRowsArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
