// SPDX-License-Identifier: Apache-2.0
#include "model/decoder.h"

#include "model/block.h"

namespace inkstone::model {

Decoder::Decoder(const checkpoint::ModelConfig& config, const ModelWeights& weights, ops::Backend& backend)
    : config_(config), weights_(weights), backend_(backend) {}

TensorView Decoder::embed(const ForwardBatch& batch, Workspace& workspace, ops::Stream& stream) const {
  const TensorView x = workspace.take(ScalarType::kF32, {batch.rows.num_rows(), config_.width});
  backend_.embed({batch.ids, weights_.embed, x}, stream);
  backend_.rms_norm({x, weights_.embed_norm, x, static_cast<float>(config_.rms_norm_eps)}, stream);
  // Tower vectors have their own norm and replace the normed embedding (`model.md` 4).
  if (!batch.media_rows.empty()) backend_.scatter_rows({batch.media_vectors, batch.media_rows, x}, stream);
  return x;
}

ForwardOutput Decoder::forward(const ForwardBatch& batch, const CacheView& cache, Workspace& workspace,
                               ops::Stream& stream, const LayerTap& tap) const {
  const TensorView x = embed(batch, workspace, stream);
  const StepContext step{config_,    backend_, stream,          workspace,
                         batch.rows, cache,    batch.step_rows, batch.nvfp4_activations};
  const ScalarType type = backend_.activation_type();
  const TensorView normed = workspace.take(type, x.shape);
  const TensorView rest = type == x.type ? TensorView() : workspace.take(type, x.shape);
  const auto norm_before = [&](std::int64_t layer) {
    return layer < config_.num_layers() ? weights_.layers[static_cast<std::size_t>(layer)].attn_norm
                                        : weights_.final_norm;
  };
  backend_.rms_norm({x, norm_before(0), normed, static_cast<float>(config_.rms_norm_eps)}, stream);
  for (std::int64_t layer = 0; layer < config_.num_layers(); ++layer) {
    if (tap) tap(layer, x);
    run_block(step, weights_.layers[static_cast<std::size_t>(layer)], layer, x,
              {normed, norm_before(layer + 1), rest});
  }
  ForwardOutput output{normed, {}};
  if (!batch.logit_rows.empty()) output.logits = logits(normed, batch.logit_rows, workspace, stream);
  return output;
}

TensorView Decoder::logits(const TensorView& hidden, const TensorView& rows, Workspace& workspace,
                           ops::Stream& stream) const {
  const TensorView chosen = workspace.take(hidden.type, {rows.rows(), config_.width});
  const TensorView out = workspace.take(ScalarType::kF32, {rows.rows(), config_.valid_vocabulary});
  backend_.gather_rows({hidden, rows, chosen}, stream);
  const auto inverse = static_cast<float>(1.0 / config_.logits_divisor);
  // Head rows are step rows whatever their number (`architecture.md` 1.2).
  backend_.linear({.x = chosen,
                   .weights = {&weights_.unembed, 1},
                   .out = out,
                   .alpha = inverse,
                   .step_rows = rows.rows()},
                  stream);
  return out;
}

// Both measure by taking the same tensors as a step, in the same order, from a workspace without memory.
std::int64_t Decoder::workspace_bytes(std::int64_t num_rows, std::int64_t num_logit_rows) const {
  Workspace measure;
  measure.take(ScalarType::kF32, {num_rows, config_.width});
  for (int i = 0; i < 2; ++i) measure.take(backend_.activation_type(), {num_rows, config_.width});
  measure_block(config_, backend_.activation_type(), num_rows, measure);
  return measure.peak_bytes() + logits_workspace_bytes(num_logit_rows);
}

std::int64_t Decoder::logits_workspace_bytes(std::int64_t num_logit_rows) const {
  Workspace measure;
  measure.take(backend_.activation_type(), {num_logit_rows, config_.width});
  measure.take(ScalarType::kF32, {num_logit_rows, config_.valid_vocabulary});
  return measure.peak_bytes();
}

}  // namespace inkstone::model
