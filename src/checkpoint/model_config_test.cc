// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/support/editable_checkpoint.h"
#include "tests/support/hf_layout.h"
#include "tests/support/synthetic_checkpoint.h"

namespace inkstone::checkpoint {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kMini = INKSTONE_SOURCE_DIR "/models/inkling-mini";

json mini() { return json::parse(test_support::read_bytes(kMini + "/config.json")); }

json mini_in_hf_dialect() {
  test_support::EditableCheckpoint checkpoint;
  checkpoint.texts["config.json"] = mini().dump();
  test_support::to_hf_config(checkpoint);
  return json::parse(checkpoint.texts["config.json"]);
}

Result<ModelConfig> parse(const json& config) { return parse_model_config(config.dump()); }

using Edit = std::function<void(json& config, json& text)>;

std::string error_after(const Edit& edit, json config = mini()) {
  edit(config, config.at("text_config"));
  const auto parsed = parse(config);
  return parsed ? "" : parsed.error().message;
}

ModelConfig parsed_after(const Edit& edit, json config = mini()) {
  edit(config, config.at("text_config"));
  const auto parsed = parse(config);
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed.value_or(ModelConfig{});
}

void expect_mini(const ModelConfig& config) {
  EXPECT_EQ(config.width, 128);
  EXPECT_EQ(config.vocabulary, 2048);
  EXPECT_EQ(config.valid_vocabulary, 2040);
  EXPECT_EQ(config.context, 32768);
  EXPECT_EQ(config.sliding.query_heads, 4);
  EXPECT_EQ(config.sliding.kv_heads, 4);
  EXPECT_EQ(config.sliding.head_dim, 128);
  EXPECT_EQ(config.sliding.window, 128);
  EXPECT_EQ(config.sliding.rel_extent, 128);
  EXPECT_EQ(config.global.kv_heads, 2);
  EXPECT_EQ(config.global.window, 0);
  EXPECT_EQ(config.global.rel_extent, 256);
  EXPECT_EQ(config.d_rel, 16);
  EXPECT_EQ(config.log_scaling_floor, 1024);
  EXPECT_DOUBLE_EQ(config.log_scaling_alpha, 0.1);
  EXPECT_DOUBLE_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.logits_divisor, 2);
  EXPECT_EQ(config.conv_width, 4);
  EXPECT_EQ(config.layer_is_sliding, (std::vector<bool>{true, true, true, false, true, true, true, false}));
  EXPECT_EQ(config.dense_layers, 1);
  EXPECT_EQ(config.dense_width, 256);
  EXPECT_EQ(config.expert_width, 64);
  EXPECT_EQ(config.routed_experts, 16);
  EXPECT_EQ(config.shared_experts, 2);
  EXPECT_EQ(config.chosen_experts, 4);
  EXPECT_EQ(config.route_scale, 8);
  EXPECT_EQ(config.mtp_is_sliding, (std::vector<bool>{true, false, true, false, true, true, true, true}));
  EXPECT_EQ(config.mtp_window, 128);
  EXPECT_FALSE(config.mtp_chain_norm);
  ASSERT_TRUE(config.vision && config.audio);
  EXPECT_EQ(config.vision->patch_size, 10);
  EXPECT_EQ(config.vision->layers, 3);
  EXPECT_EQ(config.vision->channels, 3);
  EXPECT_EQ(config.audio->mel_bins, 80);
  EXPECT_EQ(config.audio->mel_levels, 16);
  EXPECT_EQ(config.audio->dmel_min, -7);
  EXPECT_EQ(config.eos_token, 2007);
  EXPECT_EQ(config.image_token, 2017);
  EXPECT_EQ(config.audio_bos_token, 2009);
}

TEST(ModelConfig, ReadsTheNativeDialect) {
  const auto config = parse(mini());
  ASSERT_TRUE(config) << config.error().message;
  expect_mini(*config);
}

TEST(ModelConfig, ReadsTheHfDialectAlike) {
  const json hf = mini_in_hf_dialect();
  ASSERT_FALSE(hf.at("text_config").contains("local_layer_ids"));
  const auto config = parse(hf);
  ASSERT_TRUE(config) << config.error().message;
  expect_mini(*config);
}

TEST(ModelConfig, ReadsTheReleases) {
  for (const auto& model : {test_support::inkling(), test_support::inkling_small()}) {
    const auto config = parse_model_config(test_support::config_json(model.config));
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_EQ(config->width, model.config.width);
    EXPECT_EQ(config->layer_is_sliding, model.config.layer_is_sliding);
    EXPECT_EQ(config->sliding.kv_heads, model.config.sliding.kv_heads);
    EXPECT_EQ(config->expert_width, model.config.expert_width);
    EXPECT_EQ(config->log_scaling_floor, 128000);
    EXPECT_EQ(config->logits_divisor, model.config.logits_divisor);
  }
}

TEST(ModelConfig, ReadsTheTextConfigurationAlone) {
  json text = mini_in_hf_dialect().at("text_config");
  const auto config = parse(text);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->width, 128);
  EXPECT_FALSE(config->vision);
  EXPECT_EQ(config->num_mtp(), 8);
}

TEST(ModelConfig, ResolvesWidthsInTheStatedOrder) {
  const auto widths = [](const json& keys) {
    const ModelConfig config = parsed_after([&](json&, json& text) {
      for (const char* key : {"dense_intermediate_size", "intermediate_size", "moe_intermediate_size"})
        text.erase(key);
      text.update(keys);
    });
    return std::pair(config.dense_width, config.expert_width);
  };
  EXPECT_EQ(widths({{"dense_intermediate_size", 32}, {"intermediate_size", 16}}), std::pair(32L, 16L));
  EXPECT_EQ(
      widths({{"dense_intermediate_size", 32}, {"intermediate_size", 16}, {"moe_intermediate_size", 48}}),
      std::pair(32L, 48L));
  EXPECT_EQ(widths({{"dense_intermediate_size", 32}, {"moe_intermediate_size", 48}}), std::pair(32L, 48L));
  EXPECT_EQ(widths({{"intermediate_size", 16}, {"moe_intermediate_size", 48}}), std::pair(16L, 48L));
  EXPECT_EQ(widths({{"intermediate_size", 16}}), std::pair(16L, 16L));
  EXPECT_THAT(error_after([](json&, json& text) {
                text.erase("dense_intermediate_size");
                text.erase("intermediate_size");
              }),
              HasSubstr("text_config.intermediate_size is missing"));
}

TEST(ModelConfig, ResolvesLayerKindsInTheStatedOrder) {
  const std::vector<bool> by_ids = parsed_after([](json&, json& text) {
                                     text["layer_types"] = json(std::vector<std::string>(8, "hybrid"));
                                   }).layer_is_sliding;
  EXPECT_EQ(by_ids, (std::vector<bool>{true, true, true, false, true, true, true, false}));
  const std::vector<bool> by_rule =
      parsed_after([](json&, json& text) { text.erase("local_layer_ids"); }).layer_is_sliding;
  EXPECT_EQ(by_rule, (std::vector<bool>{true, true, true, true, true, false, true, true}));
  const std::vector<bool> none =
      parsed_after([](json&, json& text) { text["local_layer_ids"] = json::array(); }).layer_is_sliding;
  EXPECT_EQ(none, std::vector<bool>(8, false));
  EXPECT_THAT(error_after([](json&, json& text) { text["local_layer_ids"].push_back(8); }),
              HasSubstr("local_layer_ids"));
  EXPECT_THAT(error_after([](json&, json& text) { text["local_layer_ids"].push_back(0); }),
              HasSubstr("each once"));
}

TEST(ModelConfig, RefusesSpellingsThatDisagree) {
  EXPECT_THAT(error_after([](json&, json& text) { text["sliding_window"] = 64; }),
              HasSubstr("text_config.sliding_window_size is 128 but text_config.sliding_window is 64"));
  EXPECT_THAT(error_after([](json&, json& text) {
                text["mlp_layer_types"] = json(std::vector<std::string>(8, "sparse"));
              }),
              HasSubstr("dense_mlp_idx is 1 but text_config.mlp_layer_types begins with 0 dense layers"));
  EXPECT_EQ(error_after([](json&, json& text) { text["sliding_window"] = 128; }), "");
}

// Every switch of `spec/model.md` 2.1: absent and null mean the released value, another value is an error.
TEST(ModelConfig, AcceptsOnlyTheReleasedValueOfASwitch) {
  const std::vector<std::pair<const char*, json>> switches = {{"q_bias", true},
                                                              {"o_bias", true},
                                                              {"use_embed_norm", false},
                                                              {"use_sconv", false},
                                                              {"use_gate_bias", false},
                                                              {"norm_after_topk", false},
                                                              {"shared_expert_sink", false},
                                                              {"use_global_scale", false},
                                                              {"gate_activation", "softmax"},
                                                              {"hidden_act", "gelu"},
                                                              {"final_logit_softcapping", 30.0},
                                                              {"v_head_dim", 64},
                                                              {"tie_word_embeddings", true},
                                                              {"mtp_hidden_states_first", false},
                                                              {"use_sconv", "yes"},
                                                              {"q_bias", 0}};
  for (const auto& [key, wrong] : switches) {
    EXPECT_THAT(error_after([&](json&, json& text) { text[key] = wrong; }),
                testing::AllOf(HasSubstr(std::string("text_config.") + key), HasSubstr("is supported")));
    EXPECT_EQ(error_after([&](json&, json& text) { text[key] = nullptr; }), "") << key;
    EXPECT_EQ(error_after([&](json&, json& text) { text.erase(key); }), "") << key;
  }
}

TEST(ModelConfig, AcceptsOnlyTheReleasedTowers) {
  const auto error = [](const char* tower, const char* key, const json& value) {
    return error_after([&](json& config, json&) { config[tower][key] = value; });
  };
  EXPECT_THAT(error("vision_config", "vision_encoder_type", "vit"),
              HasSubstr("vision_config.vision_encoder_type"));
  EXPECT_THAT(error("vision_config", "use_vision_norm", false), HasSubstr("vision_config.use_vision_norm"));
  EXPECT_THAT(error("vision_config", "decoder_dmodel", 256),
              HasSubstr("vision_config.decoder_dmodel is 256 but hidden_size is 128"));
  EXPECT_THAT(error("audio_config", "audio_mode", "wave"), HasSubstr("audio_config.audio_mode"));
  EXPECT_THAT(error("audio_config", "bias", true), HasSubstr("audio_config.bias"));
  EXPECT_THAT(error("audio_config", "n_mel_bins", nullptr), HasSubstr("audio_config.n_mel_bins is missing"));
}

TEST(ModelConfig, TreatsHeadsAndTowersAsOptional) {
  const ModelConfig config = parsed_after([](json& config, json&) {
    config.erase("mtp_config");
    config["vision_config"] = nullptr;
    config.erase("audio_config");
  });
  EXPECT_EQ(config.num_mtp(), 0);
  EXPECT_FALSE(config.vision);
  EXPECT_FALSE(config.audio);
}

TEST(ModelConfig, ReadsTheWindowOfTheHeads) {
  const ModelConfig config =
      parsed_after([](json& config, json&) { config["mtp_config"]["local_extent"] = 64; });
  EXPECT_EQ(config.mtp_window, 64);
}

TEST(ModelConfig, ReadsANullFloorAsNoScaling) {
  EXPECT_FALSE(
      parsed_after([](json&, json& text) { text["log_scaling_n_floor"] = nullptr; }).log_scaling_floor);
  EXPECT_THAT(error_after([](json&, json& text) { text.erase("log_scaling_n_floor"); }),
              HasSubstr("log_scaling_n_floor is missing"));
}

TEST(ModelConfig, RequiresSizes) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "vocab_size", "unpadded_vocab_size",
                          "num_attention_heads", "swa_num_key_value_heads", "head_dim", "d_rel", "rel_extent",
                          "sliding_window_size", "n_routed_experts", "num_experts_per_tok", "dense_mlp_idx",
                          "rms_norm_eps", "route_scale", "logits_mup_width_multiplier", "model_max_length"})
    EXPECT_THAT(error_after([&](json&, json& text) { text.erase(key); }),
                HasSubstr(std::string(key) + " is missing"));
  EXPECT_EQ(parsed_after([](json&, json& text) { text.erase("sconv_kernel_size"); }).conv_width, 4);
}

TEST(ModelConfig, RefusesSizesThatCannotBe) {
  const std::vector<std::pair<const char*, json>> wrong = {{"hidden_size", 0},
                                                           {"hidden_size", -5},
                                                           {"hidden_size", "128"},
                                                           {"hidden_size", 1e300},
                                                           {"hidden_size", 128.5},
                                                           {"num_hidden_layers", 1000000},
                                                           {"hidden_size", json::array()},
                                                           {"rms_norm_eps", 0},
                                                           {"num_key_value_heads", 3},
                                                           {"unpadded_vocab_size", 4096},
                                                           {"num_experts_per_tok", 17},
                                                           {"dense_mlp_idx", 9}};
  for (const auto& [key, value] : wrong)
    EXPECT_NE(error_after([&](json&, json& text) { text[key] = value; }), "") << key << " " << value;
  EXPECT_EQ(error_after([](json&, json& text) { text["hidden_size"] = 128.0; }), "");
}

TEST(ModelConfig, RefusesOtherModels) {
  EXPECT_THAT(error_after([](json& config, json&) { config["model_type"] = "inkling2"; }),
              HasSubstr("model_type"));
  EXPECT_THAT(error_after([](json&, json& text) { text["model_type"] = "llama"; }),
              HasSubstr("text_config.model_type"));
}

TEST(ModelConfig, IgnoresUnknownKeys) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(error_after([](json& config, json& text) {
              config["brand_new"] = 1;
              text["also_new"] = true;
              config["vision_config"]["newest"] = "x";
            }),
            "");
  const std::string warned = testing::internal::GetCapturedStderr();
  for (const char* key : {"brand_new", "text_config.also_new", "vision_config.newest"})
    EXPECT_THAT(warned, HasSubstr(key));
}

TEST(ModelConfig, KnowsEveryKeyOfTheShippedFiles) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(parse(mini()));
  ASSERT_TRUE(parse(mini_in_hf_dialect()));
  ASSERT_TRUE(parse_model_config(test_support::config_json(test_support::inkling().config)));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(ModelConfig, RefusesBrokenJson) {
  EXPECT_FALSE(parse_model_config("[]"));
  EXPECT_FALSE(parse_model_config(""));
  EXPECT_FALSE(parse_model_config("{\"text_config\": 3}"));
  EXPECT_THAT(parse_model_config("{\"a\":1,\"a\":2}").error().message, HasSubstr("names 'a' twice"));
  EXPECT_THAT(parse_model_config(std::string(10000, '[')).error().message, HasSubstr("nests more than"));
  EXPECT_THAT(parse_model_config("{\"\xff\": 1}").error().message, HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace inkstone::checkpoint
