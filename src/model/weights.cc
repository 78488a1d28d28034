// SPDX-License-Identifier: Apache-2.0
#include "model/weights.h"

#include <fmt/format.h>

namespace inkstone::model {
namespace {

using checkpoint::AttentionShape;
using checkpoint::Checkpoint;
using checkpoint::ModelConfig;

// Filters are stored as [C, 1, W].
TensorView filter(const Checkpoint& from, const std::string& name) {
  const TensorView stored = from.tensor(name);
  return stored.reshaped({stored.shape[0], stored.shape[stored.shape.rank() - 1]});
}

AttentionWeights attention_weights(const Checkpoint& from, const std::string& prefix) {
  AttentionWeights weights;
  weights.qkvr = {from.matrix(prefix + "wq_du.weight"), from.matrix(prefix + "wk_dv.weight"),
                  from.matrix(prefix + "wv_dv.weight"), from.matrix(prefix + "wr_du.weight")};
  weights.q_norm = from.tensor(prefix + "q_norm.weight");
  weights.k_norm = from.tensor(prefix + "k_norm.weight");
  weights.k_conv = filter(from, prefix + "k_sconv.weight");
  weights.v_conv = filter(from, prefix + "v_sconv.weight");
  weights.rel_proj = from.tensor(prefix + "rel_logits_proj.proj");
  weights.out = from.matrix(prefix + "wo_ud.weight");
  return weights;
}

DenseWeights dense_weights(const Checkpoint& from, const std::string& prefix) {
  return {from.gated(prefix + "w13_dn.weight"), from.matrix(prefix + "w2_md.weight"),
          from.tensor(prefix + "global_scale")};
}

MoeWeights moe_weights(const Checkpoint& from, const std::string& prefix) {
  return {from.matrix(prefix + "gate.weight"),
          from.tensor(prefix + "gate.bias"),
          from.tensor(prefix + "gate.global_scale"),
          from.gated(prefix + "experts.w13_weight"),
          from.matrix(prefix + "experts.w2_weight"),
          from.gated(prefix + "shared_experts.shared_w13_weight"),
          from.matrix(prefix + "shared_experts.shared_w2_weight")};
}

BlockWeights block_weights(const Checkpoint& from, const std::string& prefix, bool dense) {
  BlockWeights weights;
  weights.attn_norm = from.tensor(prefix + "attn_norm.weight");
  weights.attention = attention_weights(from, prefix + "attn.");
  weights.attn_conv = filter(from, prefix + "attn_sconv.weight");
  weights.mlp_norm = from.tensor(prefix + "mlp_norm.weight");
  if (dense) {
    weights.dense = dense_weights(from, prefix + "mlp.");
  } else {
    weights.moe = moe_weights(from, prefix + "mlp.");
  }
  weights.mlp_conv = filter(from, prefix + "mlp_sconv.weight");
  return weights;
}

MtpWeights mtp_weights(const Checkpoint& from, std::int64_t depth) {
  const ModelConfig& config = from.config();
  const std::string prefix = fmt::format("model.mtp.layers.{}.", depth);
  MtpWeights weights{from.tensor(prefix + "embed_norm.weight"), from.tensor(prefix + "hidden_norm.weight"),
                     from.matrix(prefix + "input_proj.weight"),
                     block_weights(from, prefix + "transformer_block.", true)};
  weights.block.shape = config.global;
  if (config.mtp_is_sliding[static_cast<std::size_t>(depth)]) {
    weights.block.shape = config.sliding;
    weights.block.shape.window = config.mtp_window;
    weights.block.shape.rel_extent = config.mtp_window;
  }
  return weights;
}

VisionWeights vision_weights(const Checkpoint& from) {
  VisionWeights weights;
  const std::int64_t stages = from.config().vision->layers;
  for (std::int64_t i = 0; i < stages; ++i) {
    weights.linear.push_back(from.matrix(fmt::format("model.visual.layers.linear_{}.weight", i)));
    if (i + 1 < stages)
      weights.norm.push_back(from.tensor(fmt::format("model.visual.layers.norm_{}.weight", i)));
  }
  weights.final_norm = from.tensor("model.visual.final_norm.weight");
  return weights;
}

}  // namespace

ModelWeights host_weights(const Checkpoint& from) {
  const ModelConfig& config = from.config();
  ModelWeights weights;
  weights.embed = from.tensor("model.llm.embed.weight");
  weights.embed_norm = from.tensor("model.llm.embed_norm.weight");
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer) {
    const std::string prefix = fmt::format("model.llm.layers.{}.", layer);
    weights.layers.push_back(block_weights(from, prefix, layer < config.dense_layers));
    weights.layers.back().shape = config.attention(layer);
  }
  weights.final_norm = from.tensor("model.llm.norm.weight");
  weights.unembed = from.matrix("model.llm.unembed.weight").slice_rows(0, config.valid_vocabulary);
  if (from.has_mtp()) {
    for (std::int64_t depth = 0; depth < config.num_mtp(); ++depth)
      weights.mtp.push_back(mtp_weights(from, depth));
    if (config.mtp_chain_norm) weights.mtp_chain_norm = from.tensor("model.mtp.chain_norm.weight");
  }
  if (from.has_vision()) weights.vision = vision_weights(from);
  if (from.has_audio()) {
    weights.audio =
        AudioWeights{from.tensor("model.audio.encoder.weight"), from.tensor("model.audio.final_norm.weight")};
  }
  return weights;
}

namespace {

// Applies the two visitors of for_each_weight.
struct Visitor {
  const std::function<void(TensorView&)>& plain;
  const std::function<void(MatrixBank&)>& matrix;

  void tensors(std::initializer_list<TensorView*> views) const {
    for (TensorView* view : views) plain(*view);
  }
  void gated(GatedMatrix& pair) const {
    matrix(pair.gate);
    matrix(pair.up);
  }
  void block(BlockWeights& weights) const {
    AttentionWeights& attention = weights.attention;
    tensors({&weights.attn_norm, &attention.q_norm, &attention.k_norm, &attention.k_conv, &attention.v_conv,
             &attention.rel_proj, &weights.attn_conv, &weights.mlp_norm, &weights.mlp_conv});
    for (MatrixBank& part : attention.qkvr) matrix(part);
    matrix(attention.out);
    if (weights.dense) {
      gated(weights.dense->w13);
      matrix(weights.dense->w2);
      plain(weights.dense->global_scale);
    }
    if (weights.moe) moe(*weights.moe);
  }
  void moe(MoeWeights& weights) const {
    matrix(weights.gate);
    tensors({&weights.bias, &weights.global_scale});
    gated(weights.routed_w13);
    matrix(weights.routed_w2);
    gated(weights.shared_w13);
    matrix(weights.shared_w2);
  }
};

}  // namespace

void for_each_weight(ModelWeights& weights, const std::function<void(TensorView&)>& plain,
                     const std::function<void(MatrixBank&)>& matrix) {
  const Visitor visit{plain, matrix};
  visit.tensors({&weights.embed, &weights.embed_norm, &weights.final_norm});
  matrix(weights.unembed);
  for (BlockWeights& layer : weights.layers) visit.block(layer);
  for (MtpWeights& depth : weights.mtp) {
    visit.tensors({&depth.embed_norm, &depth.hidden_norm});
    matrix(depth.input_proj);
    visit.block(depth.block);
  }
  if (!weights.mtp_chain_norm.empty()) plain(weights.mtp_chain_norm);
  if (weights.vision) {
    for (MatrixBank& linear : weights.vision->linear) matrix(linear);
    for (TensorView& norm : weights.vision->norm) plain(norm);
    plain(weights.vision->final_norm);
  }
  if (weights.audio) visit.tensors({&weights.audio->encoder, &weights.audio->final_norm});
}

}  // namespace inkstone::model
