// SPDX-License-Identifier: Apache-2.0
// model/block.h - one decoder layer, of the trunk or of an MTP depth (`model.md` 1, 5, 6, 7).
#pragma once

#include "checkpoint/model_config.h"
#include "model/cache_view.h"
#include "model/forward_batch.h"
#include "model/state_spec.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "ops/backend.h"

namespace inkstone::model {

// What every part of a step needs; lives for one call.
struct StepContext {
  const checkpoint::ModelConfig& config;
  ops::Backend& backend;
  ops::Stream& stream;
  Workspace& workspace;
  const ops::PackedRows& rows;
  const CacheView& cache;
  std::int64_t step_rows = 0;
  bool nvfp4_activations = false;
};

// The residual stream normed for whoever reads it next [T, M].
struct NormedInput {
  TensorView rows;       // before a block: by its attn_norm; after it: by next_norm
  TensorView next_norm;  // empty: nothing is normed after the block
  // Scratch for what rounding takes from the router's input, where activations are rounded: experts with
  // almost equal scores change places for less. Empty: the router reads the rounded input.
  TensorView rest{};
};

// x += SConv(Attention(norm(x))); x += SConv(MLP(norm(x))). `x` is the residual stream [T, M], updated in
// place: f32 in the trunk whatever the backend's activations are, since every layer adds to it; in the MTP
// depths as activations. `block` counts layers, then MTP depths (model/state_spec.h). Takes scratch from the
// workspace and gives it back.
void run_block(const StepContext& step, const BlockWeights& weights, std::int64_t block, const TensorView& x,
               const NormedInput& normed);

// Takes from `workspace` what the largest block of the configuration takes for `num_rows` rows: with a
// measuring workspace, the size of a real one.
void measure_block(const checkpoint::ModelConfig& config, ScalarType type, std::int64_t num_rows,
                   Workspace& workspace);

}  // namespace inkstone::model
