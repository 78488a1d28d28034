// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/files/json_text.h"
#include "checkpoint/files/problems.h"

namespace inkstone::checkpoint {
namespace {

using nlohmann::json;

// More layers than any model of the family; keeps vectors sized by a hostile file small.
constexpr std::int64_t kMaxLayers = 4096;

const json kEmptyObject = json::object();

class ConfigParser {
 public:
  explicit ConfigParser(const json& root) : root_(root), top_(root, "", faults_) {}

  Result<ModelConfig> parse() {
    // A text-only class of HF writes the text configuration at the top level.
    const bool nested = root_.contains("text_config");
    ConfigFields text(nested ? object(top_, "text_config") : root_, nested ? "text_config." : "", faults_);
    read_names(text, nested);
    read_geometry(text);
    read_scaling(text);
    read_switches(text);
    read_experts(text);
    const std::int64_t layers = layer_count(text, {"num_hidden_layers"}, 1);
    read_layer_kinds(text, layers);
    read_dense_layers(text, layers);
    read_mtp(text);
    read_vision();
    read_audio();
    read_ids(text, nested);
    check_relations();
    INK_TRY(faults_.status());
    warn_unknown(text, nested);
    return std::move(config_);
  }

 private:
  const json& object(ConfigFields& fields, const char* key) {
    const json* value = fields.find({key});
    if (value == nullptr) return kEmptyObject;
    if (value->is_object()) return *value;
    faults_.note(ErrorKind::kInvalidArgument, fmt::format("{} is no object", fields.path(key)));
    return kEmptyObject;
  }

  std::int64_t layer_count(ConfigFields& fields, ConfigFields::Names names, std::int64_t least) {
    const std::int64_t count = least == 0 ? fields.count(names) : fields.size(names);
    if (count <= kMaxLayers) return count;
    faults_.note(ErrorKind::kInvalidArgument, fmt::format("{} is {}, at most {} are read",
                                                          fields.path(*names.begin()), count, kMaxLayers));
    return least;
  }

  void read_names(ConfigFields& text, bool nested) {
    if (nested) top_.require("model_type", "inkling_mm_model");
    if (!nested) text.ignore({"mtp_config", "vision_config", "audio_config"});
    const json* kind = text.find({"model_type"});
    if (kind != nullptr && *kind != "inkling_text" && *kind != "inkling_model")
      faults_.note(ErrorKind::kUnsupported,
                   fmt::format("{} is {}; only \"inkling_text\" and \"inkling_model\" are supported",
                               text.path("model_type"), kind->dump()));
    for (ConfigFields* fields : {&top_, &text})
      fields->ignore(
          {"architectures", "transformers_version", "dtype", "torch_dtype", "quantization_config"});
  }

  void read_geometry(ConfigFields& text) {
    config_.width = text.size({"hidden_size"});
    config_.vocabulary = text.size({"vocab_size"});
    config_.valid_vocabulary = text.size({"unpadded_vocab_size"});
    config_.context = text.size({"model_max_length", "max_position_embeddings"});
    config_.sliding = {text.size({"swa_num_attention_heads"}), text.size({"swa_num_key_value_heads"}),
                       text.size({"swa_head_dim"}), text.size({"sliding_window_size", "sliding_window"}), 0};
    config_.sliding.rel_extent = config_.sliding.window;
    config_.global = {text.size({"num_attention_heads"}), text.size({"num_key_value_heads"}),
                      text.size({"head_dim"}), 0, text.size({"rel_extent"})};
    text.require("v_head_dim", config_.global.head_dim);
    text.require("swa_v_head_dim", config_.sliding.head_dim);
    config_.d_rel = text.size({"d_rel"});
    config_.conv_width = text.size_or({"sconv_kernel_size", "conv_kernel_size"}, 4);
  }

  void read_scaling(ConfigFields& text) {
    config_.rms_norm_eps = text.positive({"rms_norm_eps"});
    config_.logits_divisor = text.positive({"logits_mup_width_multiplier", "embedding_multiplier"});
    text.ignore({"rms_norm_eps_moe_gate"});
    // A present null switches the scaling off; a missing key would leave that open.
    const json& object = text_object();
    if (object.contains("log_scaling_n_floor") && object.at("log_scaling_n_floor").is_null()) {
      text.ignore({"log_scaling_n_floor", "log_scaling_alpha"});
      return;
    }
    config_.log_scaling_floor = text.positive({"log_scaling_n_floor"});
    config_.log_scaling_alpha = text.number({"log_scaling_alpha"});
  }

  void read_switches(ConfigFields& text) {
    for (const char* key : {"use_embed_norm", "use_sconv", "shared_expert_sink", "use_gate_bias",
                            "norm_after_topk", "use_global_scale"})
      text.require(key, true);
    for (const char* key : {"q_bias", "o_bias", "tie_word_embeddings"}) text.require(key, false);
    if (&text_object() != &root_) top_.require("tie_word_embeddings", false);
    text.require("gate_activation", "sigmoid");
    text.require("hidden_act", "silu");
    text.require("final_logit_softcapping", nullptr);
  }

  // The order of `spec/model.md` 2.2: `intermediate_size` is the expert width beside
  // `dense_intermediate_size`, the dense width beside `moe_intermediate_size`, both alone.
  void read_experts(ConfigFields& text) {
    const bool has_dense = text.has("dense_intermediate_size");
    const bool has_expert = text.has("moe_intermediate_size");
    text.ignore({"intermediate_size"});
    config_.dense_width = text.size({has_dense ? "dense_intermediate_size" : "intermediate_size"});
    config_.expert_width = text.size({has_expert ? "moe_intermediate_size" : "intermediate_size"});
    config_.routed_experts = text.size({"n_routed_experts", "num_local_experts"});
    config_.shared_experts = text.size({"n_shared_experts"});
    config_.chosen_experts = text.size({"num_experts_per_tok"});
    config_.route_scale = text.positive({"route_scale"});
  }

  // The members of `names` as a list of equal length `layers`; true where the name is `first`, false where it
  // is `second`.
  std::optional<std::vector<bool>> kinds(ConfigFields& text, const char* key, const char* first,
                                         const char* second, std::int64_t layers) {
    const json* list = text.find({key});
    if (list == nullptr) return std::nullopt;
    std::vector<bool> result;
    if (!list->is_array() || static_cast<std::int64_t>(list->size()) != layers) {
      faults_.note(ErrorKind::kInvalidArgument,
                   fmt::format("{} must list one kind for each of the {} layers", text.path(key), layers));
      return std::nullopt;
    }
    for (const json& kind : *list) {
      if (kind != first && kind != second)
        faults_.note(ErrorKind::kUnsupported, fmt::format("{} holds {}; only \"{}\" and \"{}\" are supported",
                                                          text.path(key), kind.dump(), first, second));
      result.push_back(kind == first);
    }
    return result;
  }

  void read_layer_kinds(ConfigFields& text, std::int64_t layers) {
    const auto types = kinds(text, "layer_types", "hybrid_sliding", "hybrid", layers);
    const auto local = text.ids({"local_layer_ids"}, layers);
    config_.layer_is_sliding.assign(static_cast<std::size_t>(layers), false);
    if (local) {
      for (const std::int64_t layer : *local)
        config_.layer_is_sliding[static_cast<std::size_t>(layer)] = true;
    } else if (types) {
      config_.layer_is_sliding = *types;
    } else {
      for (std::size_t i = 0; i < config_.layer_is_sliding.size(); ++i)
        config_.layer_is_sliding[i] = i % 6 != 5;
    }
  }

  void read_dense_layers(ConfigFields& text, std::int64_t layers) {
    const auto types = kinds(text, "mlp_layer_types", "dense", "sparse", layers);
    std::optional<std::int64_t> leading;
    if (types) {
      const auto end = std::find(types->begin(), types->end(), false);
      leading = end - types->begin();
      if (std::find(end, types->end(), true) != types->end())
        faults_.note(ErrorKind::kUnsupported,
                     fmt::format("{} has a dense layer after a sparse one", text.path("mlp_layer_types")));
    }
    const bool counted = text.has("dense_mlp_idx") || !leading;
    config_.dense_layers = counted ? text.count({"dense_mlp_idx"}) : *leading;
    if (leading && config_.dense_layers != *leading)
      faults_.note(ErrorKind::kInvalidArgument,
                   fmt::format("{} is {} but {} begins with {} dense layers", text.path("dense_mlp_idx"),
                               config_.dense_layers, text.path("mlp_layer_types"), *leading));
    if (config_.dense_layers > layers)
      faults_.note(ErrorKind::kInvalidArgument,
                   fmt::format("{} is {}, there are {} layers", text.path("dense_mlp_idx"),
                               config_.dense_layers, layers));
  }

  void read_mtp(ConfigFields& text) {
    ConfigFields native(object(top_, "mtp_config"), "mtp_config.", faults_);
    if (top_.has("mtp_config")) {
      read_mtp_depths(native, "num_nextn_predict_layers", "local_layer_ids");
      text.ignore({"num_mtp_layers", "mtp_local_layer_ids", "chain_hidden_post_norm"});
    } else if (text.has("num_mtp_layers")) {
      read_mtp_depths(text, "num_mtp_layers", "mtp_local_layer_ids");
    } else {
      text.ignore({"mtp_local_layer_ids", "chain_hidden_post_norm"});
    }
    text.require("mtp_hidden_states_first", true);
    config_.mtp_window = native.size_or({"local_extent"}, config_.sliding.window);
    note_unknown(native);
  }

  void read_mtp_depths(ConfigFields& fields, const char* count_key, const char* ids_key) {
    const std::int64_t depths = layer_count(fields, {count_key}, 0);
    config_.mtp_is_sliding.assign(static_cast<std::size_t>(depths), false);
    config_.mtp_chain_norm = fields.flag({"chain_hidden_post_norm"}, false);
    const auto local = fields.ids({ids_key}, depths);
    if (!local && depths > 0)
      faults_.note(ErrorKind::kInvalidArgument, fmt::format("{} is missing", fields.path(ids_key)));
    for (const std::int64_t depth : local.value_or(std::vector<std::int64_t>{}))
      config_.mtp_is_sliding[static_cast<std::size_t>(depth)] = true;
  }

  void read_vision() {
    ConfigFields vision(object(top_, "vision_config"), "vision_config.", faults_);
    if (!top_.has("vision_config")) return;
    vision.require("vision_encoder_type", "hmlp");
    vision.require("use_vision_norm", true);
    vision.ignore({"model_type", "dtype", "torch_dtype"});
    config_.vision = VisionConfig{vision.size({"patch_size"}), vision.size({"temporal_patch_size"}),
                                  vision.size({"n_channels", "num_channels"}),
                                  layer_count(vision, {"n_layers", "num_hidden_layers"}, 1)};
    check_width(vision);
    note_unknown(vision);
  }

  void read_audio() {
    ConfigFields audio(object(top_, "audio_config"), "audio_config.", faults_);
    if (!top_.has("audio_config")) return;
    audio.require("audio_mode", "dmel");
    audio.require("use_audio_norm", true);
    audio.require("bias", false);
    audio.ignore({"model_type", "dtype", "torch_dtype"});
    config_.audio = AudioConfig{audio.size({"n_mel_bins"}), audio.size({"mel_vocab_size"}),
                                audio.number({"dmel_min_value"}), audio.number({"dmel_max_value"})};
    if (config_.audio->dmel_min >= config_.audio->dmel_max)
      faults_.note(ErrorKind::kInvalidArgument, "audio_config.dmel_min_value is not below dmel_max_value");
    check_width(audio);
    note_unknown(audio);
  }

  // A tower writes into the residual stream.
  void check_width(ConfigFields& tower) {
    const std::int64_t width = tower.size({"decoder_dmodel", "text_hidden_size"});
    if (width != config_.width)
      faults_.note(
          ErrorKind::kInvalidArgument,
          fmt::format("{} is {} but hidden_size is {}", tower.path("decoder_dmodel"), width, config_.width));
  }

  void read_ids(ConfigFields& text, bool nested) {
    ConfigFields& home = nested ? top_ : text;
    config_.eos_token = home.id("eos_token_id");
    config_.image_token = home.id("image_token_id");
    config_.audio_token = home.id("audio_token_id");
    config_.image_bos_token = home.id("image_bos_token_id");
    config_.audio_bos_token = home.id("audio_bos_token_id");
  }

  void check_relations() {
    check_heads(config_.sliding, "swa_num_attention_heads");
    check_heads(config_.global, "num_attention_heads");
    if (config_.valid_vocabulary > config_.vocabulary)
      faults_.note(ErrorKind::kInvalidArgument, fmt::format("unpadded_vocab_size is {} but vocab_size is {}",
                                                            config_.valid_vocabulary, config_.vocabulary));
    if (config_.chosen_experts > config_.routed_experts)
      faults_.note(ErrorKind::kInvalidArgument,
                   fmt::format("num_experts_per_tok is {} but there are {} experts", config_.chosen_experts,
                               config_.routed_experts));
  }

  void check_heads(const AttentionShape& shape, const char* key) {
    if (shape.query_heads % shape.kv_heads != 0)
      faults_.note(ErrorKind::kInvalidArgument, fmt::format("{} is {}, no multiple of the {} key/value heads",
                                                            key, shape.query_heads, shape.kv_heads));
  }

  [[nodiscard]] const json& text_object() const {
    const auto found = root_.find("text_config");
    if (found == root_.end()) return root_;
    return found->is_object() ? *found : kEmptyObject;
  }

  void note_unknown(const ConfigFields& fields) {
    for (std::string& name : fields.unknown()) unknown_.push_back(std::move(name));
  }

  void warn_unknown(const ConfigFields& text, bool nested) {
    note_unknown(text);
    if (nested) note_unknown(top_);
    if (!unknown_.empty())
      log::warning(fmt::format("config.json: unknown keys ignored: {}", first_few(unknown_)));
  }

  const json& root_;
  ConfigFaults faults_;
  ConfigFields top_;
  ModelConfig config_;
  std::vector<std::string> unknown_;
};

}  // namespace

Result<ModelConfig> parse_model_config(std::string_view json_text) {
  const json root = INK_TRY(parse_json(json_text, "config.json"));
  if (!root.is_object()) return fail(ErrorKind::kCorrupt, "config.json holds no object");
  return ConfigParser(root).parse();
}

}  // namespace inkstone::checkpoint
