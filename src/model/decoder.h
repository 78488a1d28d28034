// SPDX-License-Identifier: Apache-2.0
// model/decoder.h - the forward pass of the trunk: reads like `spec/model.md` sections 4 to 8.
// Takes a ForwardBatch from engine/batch_builder and the CacheView of the same step; gives logits and hidden
// rows.
#pragma once

#include <functional>

#include "checkpoint/model_config.h"
#include "model/cache_view.h"
#include "model/forward_batch.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "ops/backend.h"

namespace inkstone::model {

struct ForwardOutput {
  TensorView hidden;  // [T, M] after the final norm, before the division by muP: what the MTP heads take
  TensorView logits;  // [N, valid V] f32 of the batch's logit_rows; empty without any
};

// Called with the residual stream before layer i, i = 0 .. L-1: tests and `logits --hidden`. Reads after the
// stream's wait.
using LayerTap = std::function<void(std::int64_t layer, const TensorView& residual)>;

// Immutable; several decoders may share weights. The backend is used by one thread at a time.
class Decoder {
 public:
  Decoder(const checkpoint::ModelConfig& config, const ModelWeights& weights, ops::Backend& backend);

  // Enqueues one step. `output` and all intermediates live in `workspace`.
  ForwardOutput forward(const ForwardBatch& batch, const CacheView& cache, Workspace& workspace,
                        ops::Stream& stream, const LayerTap& tap = {}) const;

  // Embedding of token ids through the trunk's norm, media vectors merged: the input of layer 0 and of the
  // MTP heads.
  TensorView embed(const ForwardBatch& batch, Workspace& workspace, ops::Stream& stream) const;

  // unembed * rows / muP for the given rows of hidden states, [N] indices -> [N, valid V] f32.
  TensorView logits(const TensorView& hidden, const TensorView& rows, Workspace& workspace,
                    ops::Stream& stream) const;

  // Bytes that `forward` takes for up to these numbers of rows.
  [[nodiscard]] std::int64_t workspace_bytes(std::int64_t num_rows, std::int64_t num_logit_rows) const;
  // Bytes that `logits` takes.
  [[nodiscard]] std::int64_t logits_workspace_bytes(std::int64_t num_logit_rows) const;

 private:
  const checkpoint::ModelConfig& config_;
  const ModelWeights& weights_;
  ops::Backend& backend_;
};

}  // namespace inkstone::model
