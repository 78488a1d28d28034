// SPDX-License-Identifier: Apache-2.0
// checkpoint/model_config.h - every number and switch of `config.json` that the model needs, both dialects
// resolved. Source of the rules: `spec/model.md` 2.1 to 2.3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace inkstone::checkpoint {

// Geometry of one kind of attention layer.
struct AttentionShape {
  std::int64_t query_heads = 0;  // H
  std::int64_t kv_heads = 0;     // G
  std::int64_t head_dim = 0;     // D
  std::int64_t window = 0;       // visible keys, self included; 0 = all
  std::int64_t rel_extent = 0;   // R, distances with a bias
};

struct VisionConfig {
  std::int64_t patch_size = 0;
  std::int64_t temporal_patch_size = 0;
  std::int64_t channels = 0;
  std::int64_t layers = 0;
};

struct AudioConfig {
  std::int64_t mel_bins = 0;
  std::int64_t mel_levels = 0;
  double dmel_min = 0;
  double dmel_max = 0;
};

// Immutable after parsing.
struct ModelConfig {
  std::int64_t width = 0;             // M, hidden_size
  std::int64_t vocabulary = 0;        // rows of embed and unembed
  std::int64_t valid_vocabulary = 0;  // logits that may be sampled
  std::int64_t context = 0;           // model_max_length
  AttentionShape sliding;
  AttentionShape global;  // window 0
  std::int64_t d_rel = 0;
  std::optional<double> log_scaling_floor;  // tau; none = no scaling
  double log_scaling_alpha = 0;
  double rms_norm_eps = 0;
  double logits_divisor = 1;  // muP
  std::int64_t conv_width = 4;

  std::vector<bool> layer_is_sliding;  // [L]
  std::int64_t dense_layers = 0;       // leading layers with a dense MLP
  std::int64_t dense_width = 0;
  std::int64_t expert_width = 0;
  std::int64_t routed_experts = 0;
  std::int64_t shared_experts = 0;
  std::int64_t chosen_experts = 0;
  double route_scale = 1;

  std::vector<bool> mtp_is_sliding;  // [depths]; empty without heads
  std::int64_t mtp_window =
      0;  // window and extent of sliding depths; the trunk's unless local_extent is given
  bool mtp_chain_norm = false;

  std::optional<VisionConfig> vision;  // absent when the modality is disabled
  std::optional<AudioConfig> audio;

  std::optional<std::int64_t> eos_token;  // ids named by config.json; the tokenizer's spellings decide
  std::optional<std::int64_t> image_token;
  std::optional<std::int64_t> audio_token;
  std::optional<std::int64_t> image_bos_token;
  std::optional<std::int64_t> audio_bos_token;

  [[nodiscard]] std::int64_t num_layers() const { return static_cast<std::int64_t>(layer_is_sliding.size()); }
  [[nodiscard]] std::int64_t num_mtp() const { return static_cast<std::int64_t>(mtp_is_sliding.size()); }
  [[nodiscard]] const AttentionShape& attention(std::int64_t layer) const {
    return layer_is_sliding[static_cast<std::size_t>(layer)] ? sliding : global;
  }
};

// Parses the text of `config.json`. Unknown keys that the specification does not name are reported through
// the log as one warning. An unknown value of a switch, a missing size or a contradiction is an error naming
// the key.
Result<ModelConfig> parse_model_config(std::string_view json_text);

}  // namespace inkstone::checkpoint
