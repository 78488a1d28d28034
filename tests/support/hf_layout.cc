// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hf_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "tensor/scalar_types.h"

namespace inkstone::test_support {
namespace {

using nlohmann::json;
using Tensors = std::map<std::string, EditableTensor>;

// Replacements inside a name, each tried once, in order: longer ones first where one contains another.
constexpr std::array<std::pair<std::string_view, std::string_view>, 24> kInside = {{
    {".attn.k_sconv.", ".self_attn.k_sconv.conv1d."},
    {".attn.v_sconv.", ".self_attn.v_sconv.conv1d."},
    {".attn.wq_du.", ".self_attn.q_proj."},
    {".attn.wk_dv.", ".self_attn.k_proj."},
    {".attn.wv_dv.", ".self_attn.v_proj."},
    {".attn.wr_du.", ".self_attn.r_proj."},
    {".attn.wo_ud.", ".self_attn.o_proj."},
    {".attn.", ".self_attn."},
    {".attn_norm.", ".input_layernorm."},
    {".mlp_norm.", ".post_attention_layernorm."},
    {".attn_sconv.", ".attn_sconv.conv1d."},
    {".mlp_sconv.", ".mlp_sconv.conv1d."},
    {".mlp.w2_md.", ".mlp.down_proj."},
    {".gate.bias", ".gate.e_score_correction_bias"},
    {".shared_experts.shared_w2_weight", ".shared_experts.down_proj"},
    {".experts.w13_weight", ".experts.gate_up_proj"},
    {".experts.w2_weight", ".experts.down_proj"},
    {".transformer_block.", ".mtp_block."},
    {".hidden_norm.", ".hnorm."},
    {".input_proj.", ".eh_proj."},
    {"model.visual.final_norm", "model.vision_tower.final_norm"},
    {"model.audio.encoder.", "model.audio_tower.embed_audio_tokens.embed_audio_tokens."},
    {"model.audio.final_norm", "model.audio_tower.norm"},
    {"model.mtp.chain_norm", "shared_post_norm"},
}};

bool replace(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return false;
  text.replace(at, from.size(), to);
  return true;
}

void rename_tower(std::string& name) {
  for (const auto& [kind, module] : {std::pair{"linear_", "projection"}, std::pair{"norm_", "layer_norm"}}) {
    const std::string prefix = fmt::format("model.visual.layers.{}", kind);
    if (!name.starts_with(prefix)) continue;
    const std::string number = name.substr(prefix.size(), name.find('.', prefix.size()) - prefix.size());
    name = fmt::format("model.vision_tower.encoder_layers.{}.{}.weight", number, module);
  }
}

std::string hf_name(std::string name, const HfOptions& options) {
  const std::string trunk = options.text_only ? "model." : "model.language_model.";
  const bool head = name.starts_with("model.mtp.layers.");
  if (head && replace(name, ".embed_norm.", ".enorm.")) return options.mtp_prefix + name.substr(10);
  rename_tower(name);
  for (const auto& [from, to] : kInside) replace(name, from, to);
  if (name == "model.llm.unembed.weight") return "lm_head.weight";
  if (name == "model.llm.embed.weight") return trunk + "embed_tokens.weight";
  if (name == "model.llm.embed_norm.weight")
    return trunk + (options.late_embed_norm ? "embed_tokens.embed_norm.weight" : "embed_norm.weight");
  replace(name, "model.llm.", trunk);
  return head ? options.mtp_prefix + name.substr(10) : name;
}

// Rows of axis `rank - 2`: the even ones of each matrix, then the odd ones.
struct Halves {
  EditableTensor gate, up, both;
};

Halves deinterleave(const EditableTensor& tensor) {
  Halves halves;
  const std::size_t rows = static_cast<std::size_t>(tensor.shape[tensor.shape.size() - 2]);
  const std::size_t matrices = tensor.shape.size() == 3 ? static_cast<std::size_t>(tensor.shape[0]) : 1;
  const std::size_t row_bytes = tensor.bytes.size() / rows / matrices;
  halves.both = tensor;
  halves.gate = halves.up = EditableTensor{tensor.dtype, tensor.shape, {}};
  for (EditableTensor* half : {&halves.gate, &halves.up}) {
    half->shape[half->shape.size() - 2] /= 2;
    half->bytes.resize(tensor.bytes.size() / 2);
  }
  for (std::size_t i = 0; i < rows * matrices; ++i) {
    const std::size_t matrix = i / rows, row = i % rows, half = row % 2, pair = row / 2;
    const std::byte* source = tensor.bytes.data() + i * row_bytes;
    EditableTensor& part = half == 0 ? halves.gate : halves.up;
    std::memcpy(part.bytes.data() + (matrix * rows / 2 + pair) * row_bytes, source, row_bytes);
    std::memcpy(halves.both.bytes.data() + (matrix * rows + half * rows / 2 + pair) * row_bytes, source,
                row_bytes);
  }
  return halves;
}

bool ends_with(const std::string& name, std::string_view end) { return name.ends_with(end); }

void rename_keys(json& object, std::initializer_list<std::pair<const char*, const char*>> names) {
  for (const auto& [from, to] : names) {
    if (!object.contains(from)) continue;
    object[to] = object.at(from);
    object.erase(from);
  }
}

json layer_types(const json& text) {
  json types = json::array();
  for (int i = 0; i < text.at("num_hidden_layers").get<int>(); ++i) {
    const json& local = text.at("local_layer_ids");
    types.push_back(std::find(local.begin(), local.end(), i) != local.end() ? "hybrid_sliding" : "hybrid");
  }
  return types;
}

json mlp_layer_types(const json& text) {
  json types = json::array();
  for (int i = 0; i < text.at("num_hidden_layers").get<int>(); ++i)
    types.push_back(i < text.at("dense_mlp_idx").get<int>() ? "dense" : "sparse");
  return types;
}

float first_float(const EditableTensor& tensor, std::size_t index) {
  float value = 0;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof(float), sizeof(float));
  return value;
}

EditableTensor floats(std::vector<std::int64_t> shape, const std::vector<float>& values) {
  EditableTensor tensor{"F32", std::move(shape), {}};
  tensor.bytes.resize(values.size() * sizeof(float));
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

}  // namespace

void to_hf_names(EditableCheckpoint& checkpoint, const HfOptions& options) {
  if (options.text_only) {
    checkpoint.drop("model.visual.");
    checkpoint.drop("model.audio.");
  }
  Tensors renamed;
  for (auto& [name, tensor] : checkpoint.tensors) {
    if (ends_with(name, "w13_dn.weight") || ends_with(name, "shared_w13_weight")) {
      const Halves halves = deinterleave(tensor);
      const bool dense = ends_with(name, "w13_dn.weight");
      std::string stem = name.substr(0, name.rfind(dense ? "w13_dn" : "shared_w13"));
      renamed.emplace(hf_name(stem + (dense ? "gate_proj.weight" : "gate_proj"), options), halves.gate);
      renamed.emplace(hf_name(stem + (dense ? "up_proj.weight" : "up_proj"), options), halves.up);
      continue;
    }
    const bool rows = ends_with(name, "experts.w13_weight") || ends_with(name, "experts.w13_weight.scale") ||
                      ends_with(name, "w13_weight.weight_packed") ||
                      ends_with(name, "w13_weight.weight_scale");
    renamed.emplace(hf_name(name, options), rows ? deinterleave(tensor).both : std::move(tensor));
  }
  checkpoint.tensors = std::move(renamed);
}

void to_hf_config(EditableCheckpoint& checkpoint) {
  json config = json::parse(checkpoint.texts.at("config.json"));
  json& text = config.at("text_config");
  text["layer_types"] = layer_types(text);
  text["mlp_layer_types"] = mlp_layer_types(text);
  text.erase("local_layer_ids");
  text.erase("dense_mlp_idx");
  rename_keys(text, {{"intermediate_size", "moe_intermediate_size"},
                     {"dense_intermediate_size", "intermediate_size"},
                     {"sconv_kernel_size", "conv_kernel_size"},
                     {"model_max_length", "max_position_embeddings"},
                     {"sliding_window_size", "sliding_window"},
                     {"n_routed_experts", "num_local_experts"},
                     {"logits_mup_width_multiplier", "embedding_multiplier"}});
  text["model_type"] = "inkling_text";
  const json mtp = config.value("mtp_config", json::object());
  text["num_mtp_layers"] = mtp.value("num_nextn_predict_layers", 0);
  text["mtp_local_layer_ids"] = mtp.value("local_layer_ids", json::array());
  text["chain_hidden_post_norm"] = mtp.value("chain_hidden_post_norm", false);
  text["mtp_hidden_states_first"] = true;
  config.erase("mtp_config");
  if (config.contains("vision_config"))
    rename_keys(config["vision_config"], {{"n_layers", "num_hidden_layers"},
                                          {"n_channels", "num_channels"},
                                          {"decoder_dmodel", "text_hidden_size"}});
  if (config.contains("audio_config"))
    rename_keys(config["audio_config"], {{"decoder_dmodel", "text_hidden_size"}});
  checkpoint.texts["config.json"] = config.dump(2);
}

void to_wide_convolutions(EditableCheckpoint& checkpoint) {
  for (auto& [name, tensor] : checkpoint.tensors) {
    if (!ends_with(name, "sconv.weight")) continue;
    std::vector<float> wide(tensor.bytes.size() / sizeof(BFloat16));
    for (std::size_t i = 0; i < wide.size(); ++i) {
      BFloat16 narrow;
      std::memcpy(&narrow, tensor.bytes.data() + i * sizeof narrow, sizeof narrow);
      wide[i] = to_float(narrow);
    }
    tensor = floats(tensor.shape, wide);
  }
}

void to_compressed_tensors(EditableCheckpoint& checkpoint) {
  Tensors result;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (ends_with(name, ".scale") && tensor.dtype == "F8_E4M3") {
      result[name.substr(0, name.size() - 6) + ".weight_scale"] = tensor;
    } else if (ends_with(name, ".scale2")) {
      const std::size_t count = static_cast<std::size_t>(tensor.shape[0]);
      std::vector<float> divisors(count);
      for (std::size_t i = 0; i < count; ++i) divisors[i] = 1.0F / first_float(tensor, i);
      result[name.substr(0, name.size() - 7) + ".weight_global_scale"] =
          floats({tensor.shape[0], 1}, divisors);
    } else if (ends_with(name, ".input_amax")) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data(), 2);
      const float amax = to_float(BFloat16{bits});
      result[name.substr(0, name.size() - 11) + ".input_global_scale"] = floats({1}, {2688.0F / amax});
    } else if (ends_with(name, ".original_shape")) {
      continue;
    } else if (tensor.dtype == "U8") {
      result[name + ".weight_packed"] = tensor;
    } else {
      result[name] = tensor;
    }
  }
  checkpoint.tensors = std::move(result);
  checkpoint.texts.erase("hf_quant_config.json");
}

Status resave(const std::string& from, const std::string& to, const ResaveOptions& options) {
  EditableCheckpoint checkpoint = INK_TRY(EditableCheckpoint::load(from));
  if (!options.heads) checkpoint.drop("model.mtp.");
  if (!options.towers) {
    checkpoint.drop("model.visual.");
    checkpoint.drop("model.audio.");
  }
  if (options.wide_convolutions) to_wide_convolutions(checkpoint);
  if (options.compressed_tensors) to_compressed_tensors(checkpoint);
  if (options.hf_names) to_hf_names(checkpoint, options.hf);
  if (options.hf_config) to_hf_config(checkpoint);
  return checkpoint.save(to, options.save);
}

}  // namespace inkstone::test_support
