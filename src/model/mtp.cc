// SPDX-License-Identifier: Apache-2.0
#include "model/mtp.h"

#include "model/block.h"

namespace inkstone::model {

MtpHeads::MtpHeads(const checkpoint::ModelConfig& config, const ModelWeights& weights, ops::Backend& backend,
                   const Decoder& trunk)
    : config_(config), weights_(weights), backend_(backend), trunk_(trunk) {}

TensorView MtpHeads::forward(std::int64_t depth, const TensorView& hidden, const ForwardBatch& batch,
                             const CacheView& cache, Workspace& workspace, ops::Stream& stream) const {
  const MtpWeights& weights = weights_.mtp[static_cast<std::size_t>(depth)];
  const std::int64_t num_rows = batch.rows.num_rows();
  const ScalarType type = backend_.activation_type();
  const auto eps = static_cast<float>(config_.rms_norm_eps);
  const TensorView out = workspace.take(type, {num_rows, config_.width});
  const std::int64_t mark = workspace.mark();

  // The embedding is normed twice: by the trunk's norm, then by the depth's own.
  const TensorView embedding = trunk_.embed(batch, workspace, stream);
  const TensorView joined = workspace.take(type, {num_rows, 2 * config_.width});
  backend_.rms_norm({hidden, weights.hidden_norm, joined.columns_at(0, config_.width), eps}, stream);
  backend_.rms_norm({embedding, weights.embed_norm, joined.columns_at(config_.width, config_.width), eps},
                    stream);
  backend_.linear(
      {.x = joined, .weights = {&weights.input_proj, 1}, .out = out, .step_rows = batch.step_rows}, stream);

  const StepContext step{config_, backend_, stream, workspace, batch.rows, cache, batch.step_rows};
  const TensorView normed = workspace.take(type, out.shape);
  backend_.rms_norm({out, weights.block.attn_norm, normed, eps}, stream);
  run_block(step, weights.block, config_.num_layers() + depth, out, {normed, {}});
  if (!weights_.mtp_chain_norm.empty()) backend_.rms_norm({out, weights_.mtp_chain_norm, out, eps}, stream);
  workspace.rewind(mark);
  return out;
}

std::int64_t MtpHeads::workspace_bytes(std::int64_t num_rows) const {
  if (num_depths() == 0) return 0;
  Workspace measure;
  const ScalarType type = backend_.activation_type();
  measure.take(ScalarType::kF32, {num_rows, config_.width});  // the embedding
  for (int i = 0; i < 2; ++i) measure.take(type, {num_rows, config_.width});
  measure.take(type, {num_rows, 2 * config_.width});
  measure_block(config_, type, num_rows, measure);
  return measure.peak_bytes();
}

}  // namespace inkstone::model
