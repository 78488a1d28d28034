// SPDX-License-Identifier: Apache-2.0
// ops/attention.h - causal attention with relative logits over state and own rows (`model.md` 5).
#pragma once

#include "ops/cost.h"
#include "ops/packed_rows.h"
#include "ops/state_rows.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// For the query of position i and the key of position j, both of one sequence:
//   score = scale * q_i . k_j + (i - j < R ? sum_m rel_i[m] * rel_proj[m][i - j] : 0)
// over 0 <= i - j < window (all j <= i when window is 0); softmax in f32; weighted sum of v.
// Keys of the batch's own positions come from `k` and `v`, older ones from `older`: the state may or may not
// hold the batch's rows already. Query head h reads key head h / (H / G).
struct AttentionArgs {
  TensorView q;         // [T, H, D] f32 or bf16: normalised, times tau
  TensorView k;         // [T, G, D] after convolution and norm
  TensorView v;         // [T, G, D] after convolution
  TensorView rel;       // [T, H, d_rel] times tau
  TensorView rel_proj;  // [d_rel, R] bf16
  PackedRows rows;
  StateRows older;  // [N, G, 2, D]: key, then value, of each head
  TensorView out;   // [T, H, D] as q
  float scale = 0;
  std::int64_t window = 0;     // visible keys, self included; 0 = all
  std::int64_t step_rows = 0;  // leading rows of the step class, see ops/linear.h
};

// Writes keys and values of the batch into the state: for a ring only the last ring_rows positions of each
// sequence. In a ring it may run before the attention of the same batch only while rows <= ring_rows -
// window.
struct StoreKvArgs {
  TensorView k;  // [T, G, D] f32 or bf16
  TensorView v;  // [T, G, D]
  PackedRows rows;
  StateRows state;  // [N, G, 2, D] as k
};

void check(const AttentionArgs& args);
Cost cost(const AttentionArgs& args);
void check(const StoreKvArgs& args);
Cost cost(const StoreKvArgs& args);

class AttentionOps {
 public:
  virtual ~AttentionOps() = default;
  virtual void attention(const AttentionArgs& args, Stream& stream) = 0;
  virtual void store_kv(const StoreKvArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
