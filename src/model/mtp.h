// SPDX-License-Identifier: Apache-2.0
// model/mtp.h - the chained heads for multi-token prediction (`model.md` 11): one depth over packed rows.
#pragma once

#include "model/cache_view.h"
#include "model/decoder.h"
#include "model/forward_batch.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "ops/backend.h"

namespace inkstone::model {

// Row p of depth j takes row p of depth j-1's hidden states (the trunk's for j = 0) and token p+1+j, and
// predicts token p+2+j. Positions of the batch are p. State groups: block num_layers + depth
// (model/state_spec.h).
class MtpHeads {
 public:
  MtpHeads(const checkpoint::ModelConfig& config, const ModelWeights& weights, ops::Backend& backend,
           const Decoder& trunk);

  [[nodiscard]] std::int64_t num_depths() const { return static_cast<std::int64_t>(weights_.mtp.size()); }

  // `batch.ids` are the shifted tokens; media rows and vectors stand for shifted positions too. Returns the
  // depth's hidden rows [T, M], input of the next depth and of Decoder::logits.
  TensorView forward(std::int64_t depth, const TensorView& hidden, const ForwardBatch& batch,
                     const CacheView& cache, Workspace& workspace, ops::Stream& stream) const;

  // Bytes that `forward` takes for up to this many rows.
  [[nodiscard]] std::int64_t workspace_bytes(std::int64_t num_rows) const;

 private:
  const checkpoint::ModelConfig& config_;
  const ModelWeights& weights_;
  ops::Backend& backend_;
  const Decoder& trunk_;
};

}  // namespace inkstone::model
