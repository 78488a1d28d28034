// SPDX-License-Identifier: Apache-2.0
// ops/embed.h - rows of a table.
#pragma once

#include "ops/cost.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

struct EmbedArgs {
  TensorView ids;    // [T] i32; every id < V, ids of padding rows too
  TensorView table;  // [V, M] bf16
  TensorView out;    // [T, M] f32 or bf16
};

// Sum of one row per column of `levels`: the audio tower. Row of bin b at level v is b * num_levels + v.
struct EmbedSumArgs {
  TensorView levels;  // [T, B] i32, each in [0, num_levels)
  TensorView table;   // [B * num_levels, M] bf16
  TensorView out;     // [T, M] f32 or bf16
  std::int64_t num_levels = 0;
};

void check(const EmbedArgs& args);
Cost cost(const EmbedArgs& args);
void check(const EmbedSumArgs& args);
Cost cost(const EmbedSumArgs& args);

class EmbedOps {
 public:
  virtual ~EmbedOps() = default;
  virtual void embed(const EmbedArgs& args, Stream& stream) = 0;
  virtual void embed_sum(const EmbedSumArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
