// SPDX-License-Identifier: Apache-2.0
// model/forward_batch.h - one step's input: comes from engine/batch_builder, goes through model/decoder.
#pragma once

#include "ops/packed_rows.h"
#include "tensor/tensor_view.h"

namespace inkstone::model {

// All tensors in the backend's memory.
struct ForwardBatch {
  TensorView ids;  // [T] i32
  ops::PackedRows rows;
  TensorView logit_rows;     // [N] i32: rows whose logits are wanted; may be empty
  TensorView media_rows;     // [m] i32: rows whose embedding is replaced by a tower's vector; may be empty
  TensorView media_vectors;  // [m, M] activation type
  // Leading rows of the step class (ops/linear.h): sequences that decode come first.
  std::int64_t step_rows = 0;
  bool nvfp4_activations = false;  // W4A4, asked for explicitly (`checkpoint.md` 5.4)
};

}  // namespace inkstone::model
