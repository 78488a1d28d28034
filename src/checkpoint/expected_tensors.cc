// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/expected_tensors.h"

#include <fmt/format.h>

#include <utility>

namespace inkstone::checkpoint {
namespace {

class Table {
 public:
  explicit Table(const ModelConfig& config) : config_(config) {}

  std::vector<ExpectedTensor> build() {
    trunk();
    mtp();
    vision();
    audio();
    return std::move(tensors_);
  }

 private:
  void add(std::string name, Shape shape, TensorRole role = TensorRole::kPlain) {
    tensors_.push_back({std::move(name), shape, role, group_});
  }

  void trunk() {
    group_ = TensorGroup::kTrunk;
    add("model.llm.embed.weight", {config_.vocabulary, config_.width});
    add("model.llm.embed_norm.weight", {config_.width});
    for (std::int64_t layer = 0; layer < config_.num_layers(); ++layer) {
      const std::string prefix = fmt::format("model.llm.layers.{}.", layer);
      block(prefix, config_.attention(layer));
      if (layer < config_.dense_layers)
        dense(prefix + "mlp.");
      else
        mixture(prefix + "mlp.");
    }
    add("model.llm.norm.weight", {config_.width});
    add("model.llm.unembed.weight", {config_.vocabulary, config_.width});
  }

  // What every layer has, trunk or head.
  void block(const std::string& prefix, const AttentionShape& shape) {
    const std::int64_t width = config_.width;
    const std::int64_t queries = shape.query_heads * shape.head_dim;
    const std::int64_t keys = shape.kv_heads * shape.head_dim;
    add(prefix + "attn_norm.weight", {width});
    add(prefix + "attn.wq_du.weight", {queries, width});
    add(prefix + "attn.wk_dv.weight", {keys, width});
    add(prefix + "attn.wv_dv.weight", {keys, width});
    add(prefix + "attn.wr_du.weight", {shape.query_heads * config_.d_rel, width});
    add(prefix + "attn.wo_ud.weight", {width, queries});
    add(prefix + "attn.q_norm.weight", {shape.head_dim});
    add(prefix + "attn.k_norm.weight", {shape.head_dim});
    add(prefix + "attn.k_sconv.weight", {keys, 1, config_.conv_width}, TensorRole::kConv);
    add(prefix + "attn.v_sconv.weight", {keys, 1, config_.conv_width}, TensorRole::kConv);
    add(prefix + "attn.rel_logits_proj.proj", {config_.d_rel, shape.rel_extent});
    add(prefix + "attn_sconv.weight", {width, 1, config_.conv_width}, TensorRole::kConv);
    add(prefix + "mlp_norm.weight", {width});
    add(prefix + "mlp_sconv.weight", {width, 1, config_.conv_width}, TensorRole::kConv);
  }

  void dense(const std::string& prefix) {
    add(prefix + "w13_dn.weight", {2 * config_.dense_width, config_.width}, TensorRole::kGated);
    add(prefix + "w2_md.weight", {config_.width, config_.dense_width});
    add(prefix + "global_scale", {1});
  }

  void mixture(const std::string& prefix) {
    const std::int64_t routed = config_.routed_experts;
    const std::int64_t shared = config_.shared_experts;
    const std::int64_t width = config_.width;
    const std::int64_t inner = config_.expert_width;
    add(prefix + "gate.weight", {routed + shared, width});
    add(prefix + "gate.bias", {routed}, TensorRole::kRouter);
    add(prefix + "gate.global_scale", {1}, TensorRole::kRouter);
    add(prefix + "experts.w13_weight", {routed, 2 * inner, width}, TensorRole::kGatedExperts);
    add(prefix + "experts.w2_weight", {routed, width, inner}, TensorRole::kExperts);
    add(prefix + "shared_experts.shared_w13_weight", {shared, 2 * inner, width}, TensorRole::kGated);
    add(prefix + "shared_experts.shared_w2_weight", {shared, width, inner});
  }

  void mtp() {
    group_ = TensorGroup::kMtp;
    AttentionShape sliding = config_.sliding;
    sliding.window = sliding.rel_extent = config_.mtp_window;
    for (std::size_t depth = 0; depth < config_.mtp_is_sliding.size(); ++depth) {
      const std::string prefix = fmt::format("model.mtp.layers.{}.", depth);
      add(prefix + "embed_norm.weight", {config_.width});
      add(prefix + "hidden_norm.weight", {config_.width});
      add(prefix + "input_proj.weight", {config_.width, 2 * config_.width});
      block(prefix + "transformer_block.", config_.mtp_is_sliding[depth] ? sliding : config_.global);
      dense(prefix + "transformer_block.mlp.");
    }
    if (config_.mtp_chain_norm && config_.num_mtp() > 0) add("model.mtp.chain_norm.weight", {config_.width});
  }

  // Inner widths follow from the weights themselves (`spec/model.md` 12.1).
  void vision() {
    if (!config_.vision) return;
    group_ = TensorGroup::kVision;
    const std::int64_t last = config_.vision->layers - 1;
    for (std::int64_t i = 0; i <= last; ++i) {
      const std::int64_t rows = i == last ? config_.width : ExpectedTensor::kAnySize;
      add(fmt::format("model.visual.layers.linear_{}.weight", i), {rows, ExpectedTensor::kAnySize});
      if (i < last) add(fmt::format("model.visual.layers.norm_{}.weight", i), {ExpectedTensor::kAnySize});
    }
    add("model.visual.final_norm.weight", {config_.width});
  }

  void audio() {
    if (!config_.audio) return;
    group_ = TensorGroup::kAudio;
    add("model.audio.encoder.weight", {config_.audio->mel_bins * config_.audio->mel_levels, config_.width});
    add("model.audio.final_norm.weight", {config_.width});
  }

  const ModelConfig& config_;
  TensorGroup group_ = TensorGroup::kTrunk;
  std::vector<ExpectedTensor> tensors_;
};

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) { return Table(config).build(); }

}  // namespace inkstone::checkpoint
