// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "tests/support/synthetic_checkpoint.h"

namespace inkstone::test_support {
namespace {

using checkpoint::ModelConfig;
using nlohmann::ordered_json;

std::vector<bool> sliding_except(std::int64_t layers, std::int64_t period) {
  std::vector<bool> kinds;
  for (std::int64_t i = 0; i < layers; ++i) kinds.push_back(i % period != period - 1);
  return kinds;
}

// What both releases share.
ModelConfig released() {
  ModelConfig config;
  config.vocabulary = 201024;
  config.valid_vocabulary = 200058;
  config.context = 1048576;
  config.d_rel = 16;
  config.log_scaling_floor = 128000;
  config.log_scaling_alpha = 0.1;
  config.rms_norm_eps = 1e-6;
  config.dense_layers = 2;
  config.routed_experts = 256;
  config.shared_experts = 2;
  config.chosen_experts = 6;
  config.route_scale = 8;
  config.mtp_is_sliding = {true, false, true, false, true, true, true, true};
  config.mtp_window = 512;
  config.vision = checkpoint::VisionConfig{40, 2, 3, 4};
  config.audio = checkpoint::AudioConfig{80, 16, -7, 2};
  config.eos_token = 200006;
  return config;
}

ordered_json ids_where(const std::vector<bool>& flags) {
  ordered_json ids = ordered_json::array();
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i]) ids.push_back(i);
  return ids;
}

ordered_json text_config(const ModelConfig& c) {
  ordered_json text = {{"model_max_length", c.context},
                       {"torch_dtype", "bfloat16"},
                       {"hidden_size", c.width},
                       {"num_hidden_layers", c.num_layers()},
                       {"vocab_size", c.vocabulary},
                       {"num_attention_heads", c.global.query_heads},
                       {"num_key_value_heads", c.global.kv_heads},
                       {"head_dim", c.global.head_dim},
                       {"d_rel", c.d_rel},
                       {"rel_extent", c.global.rel_extent},
                       {"q_bias", false},
                       {"o_bias", false},
                       {"log_scaling_n_floor", nullptr},
                       {"log_scaling_alpha", c.log_scaling_alpha},
                       {"rms_norm_eps", c.rms_norm_eps},
                       {"use_embed_norm", true},
                       {"local_layer_ids", ids_where(c.layer_is_sliding)},
                       {"dense_mlp_idx", c.dense_layers},
                       {"use_sconv", true},
                       {"sconv_kernel_size", c.conv_width},
                       {"unpadded_vocab_size", c.valid_vocabulary},
                       {"logits_mup_width_multiplier", c.logits_divisor},
                       {"final_logit_softcapping", nullptr},
                       {"swa_head_dim", c.sliding.head_dim},
                       {"swa_num_attention_heads", c.sliding.query_heads},
                       {"swa_num_key_value_heads", c.sliding.kv_heads},
                       {"sliding_window_size", c.sliding.window},
                       {"n_routed_experts", c.routed_experts},
                       {"num_experts_per_tok", c.chosen_experts},
                       {"n_shared_experts", c.shared_experts},
                       {"shared_expert_sink", true},
                       {"dense_intermediate_size", c.dense_width},
                       {"intermediate_size", c.expert_width},
                       {"route_scale", c.route_scale},
                       {"use_gate_bias", true},
                       {"gate_activation", "sigmoid"},
                       {"norm_after_topk", true},
                       {"use_global_scale", true}};
  if (c.log_scaling_floor) text["log_scaling_n_floor"] = *c.log_scaling_floor;
  return text;
}

}  // namespace

SyntheticModel inkling() {
  ModelConfig config = released();
  config.width = 6144;
  config.layer_is_sliding = sliding_except(66, 6);
  config.sliding = {64, 16, 128, 512, 512};
  config.global = {64, 8, 128, 0, 1024};
  config.dense_width = 24576;
  config.expert_width = 3072;
  config.logits_divisor = 24;
  return {config, {{128, 75}, {320, 512}, {4800, 5120}, {6144, 9600}}};
}

SyntheticModel inkling_small() {
  ModelConfig config = released();
  config.width = 4096;
  config.layer_is_sliding = sliding_except(42, 6);
  config.sliding = {32, 8, 128, 512, 512};
  config.global = {32, 8, 128, 0, 1024};
  config.dense_width = 16384;
  config.expert_width = 2048;
  config.logits_divisor = 16;
  return {config, {{128, 75}, {320, 512}, {4800, 5120}, {4096, 9600}}};
}

SyntheticModel real_ratios() {
  ModelConfig config = released();
  config.width = 64;
  config.vocabulary = 1056;
  config.valid_vocabulary = 1000;
  config.context = 4096;
  config.layer_is_sliding = sliding_except(9, 4);
  config.sliding = {64, 16, 16, 32, 32};
  config.global = {64, 8, 16, 0, 64};
  config.log_scaling_floor = 128;
  config.dense_width = 256;
  config.expert_width = 32;
  config.logits_divisor = 2;
  config.mtp_window = 32;
  config.vision = checkpoint::VisionConfig{10, 2, 3, 3};
  config.eos_token = 7;
  return {config, {{128, 75}, {320, 512}, {64, 640}}};
}

std::string config_json(const ModelConfig& c) {
  ordered_json root = {{"architectures", {"InklingForConditionalGeneration"}},
                       {"model_type", "inkling_mm_model"}};
  if (c.eos_token) root["eos_token_id"] = *c.eos_token;
  root["text_config"] = text_config(c);
  if (c.audio)
    root["audio_config"] = {{"decoder_dmodel", c.width},
                            {"n_mel_bins", c.audio->mel_bins},
                            {"mel_vocab_size", c.audio->mel_levels},
                            {"bias", false},
                            {"dmel_min_value", c.audio->dmel_min},
                            {"dmel_max_value", c.audio->dmel_max},
                            {"use_audio_norm", true},
                            {"audio_mode", "dmel"}};
  if (c.vision)
    root["vision_config"] = {{"vision_encoder_type", "hmlp"},
                             {"decoder_dmodel", c.width},
                             {"patch_size", c.vision->patch_size},
                             {"temporal_patch_size", c.vision->temporal_patch_size},
                             {"n_channels", c.vision->channels},
                             {"n_layers", c.vision->layers},
                             {"use_vision_norm", true}};
  root["mtp_config"] = {{"num_nextn_predict_layers", c.num_mtp()},
                        {"chain_hidden_post_norm", c.mtp_chain_norm},
                        {"local_layer_ids", ids_where(c.mtp_is_sliding)}};
  return root.dump(2) + "\n";
}

}  // namespace inkstone::test_support
