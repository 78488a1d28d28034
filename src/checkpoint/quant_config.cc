// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quant_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/config_fields.h"
#include "checkpoint/files/json_text.h"

namespace inkstone::checkpoint {
namespace {

using nlohmann::json;

constexpr const char* kFile = "hf_quant_config.json";

Status check_value(const json& quantization, const char* key, const json& only) {
  const auto found = quantization.find(key);
  if (found == quantization.end() || found->is_null() || *found == only) return {};
  return fail(ErrorKind::kUnsupported,
              fmt::format("{}: {} is {}; only {} is supported", kFile, key, found->dump(), only.dump()));
}

Status read_exclusions(const json& quantization, QuantConfig& quant) {
  const auto list = quantization.find("exclude_modules");
  if (list == quantization.end() || list->is_null()) return {};
  if (!list->is_array())
    return fail(ErrorKind::kCorrupt, fmt::format("{}: exclude_modules is no list", kFile));
  for (const json& module : *list) {
    if (!module.is_string() || module.get<std::string>().empty())
      return fail(ErrorKind::kCorrupt, fmt::format("{}: exclude_modules holds {}", kFile, module.dump()));
    quant.exclude_modules.push_back(module.get<std::string>());
  }
  return {};
}

nlohmann::ordered_json quantizer() {
  return {{"num_bits", {2, 1}},
          {"block_sizes", {{"-1", 16}, {"type", "dynamic"}, {"scale_bits", {4, 3}}}},
          {"axis", nullptr},
          {"enable", true}};
}

}  // namespace

bool QuantConfig::excludes(std::string_view module) const {
  return std::any_of(exclude_modules.begin(), exclude_modules.end(), [&](const std::string& excluded) {
    return module.starts_with(excluded) &&
           (module.size() == excluded.size() || module[excluded.size()] == '.');
  });
}

Result<QuantConfig> parse_quant_config(std::string_view json_text) {
  const json root = INK_TRY(parse_json(json_text, kFile));
  if (!root.is_object() || !root.contains("quantization") || !root.at("quantization").is_object())
    return fail(ErrorKind::kCorrupt, fmt::format("{} holds no object 'quantization'", kFile));
  const json& quantization = root.at("quantization");
  INK_TRY(check_value(quantization, "quant_algo", "NVFP4"));
  INK_TRY(check_value(quantization, "kv_cache_quant_algo", "none"));
  INK_TRY(check_value(quantization, "group_size", 16));
  QuantConfig quant;
  INK_TRY(read_exclusions(quantization, quant));
  return quant;
}

Result<std::optional<QuantConfig>> read_quant_config(const std::string& folder) {
  const auto text = read_text_file(folder + "/hf_quant_config.json");
  if (text) return INK_TRY(parse_quant_config(*text));
  if (text.error().kind == ErrorKind::kNotFound) return std::optional<QuantConfig>();
  return tl::unexpected(text.error());
}

QuantConfig released_exclusions(const ModelConfig& config) {
  QuantConfig quant;
  std::vector<std::string>& names = quant.exclude_modules;
  const auto layer = [&](std::int64_t index, std::string_view module) {
    names.push_back(fmt::format("model.llm.layers.{}.{}", index, module));
  };
  for (std::int64_t i = 0; i < config.num_layers(); ++i)
    for (const char* module : {"attn", "attn_norm", "attn_sconv", "mlp_norm", "mlp_sconv"}) layer(i, module);
  for (std::int64_t i = 0; i < config.dense_layers; ++i)
    for (const char* module : {"mlp.w13_dn", "mlp.w2_md", "mlp.global_scale"}) layer(i, module);
  for (std::int64_t i = config.dense_layers; i < config.num_layers(); ++i)
    for (const char* module : {"mlp.gate", "mlp.shared_experts"}) layer(i, module);
  if (config.dense_layers < config.num_layers()) layer(config.dense_layers, "mlp.experts");
  for (const char* module : {"embed", "embed_norm", "norm", "unembed"})
    names.push_back(fmt::format("model.llm.{}", module));
  if (config.audio)
    for (const char* module : {"decoder", "encoder", "final_norm"})
      names.push_back(fmt::format("model.audio.{}", module));
  if (!config.vision) return quant;
  for (std::int64_t i = 0; i < config.vision->layers; ++i)
    names.push_back(fmt::format("model.visual.layers.linear_{}", i));
  for (std::int64_t i = 0; i + 1 < config.vision->layers; ++i)
    names.push_back(fmt::format("model.visual.layers.norm_{}", i));
  names.emplace_back("model.visual.final_norm");
  return quant;
}

std::string write_quant_config(const QuantConfig& quant) {
  nlohmann::ordered_json root;
  nlohmann::ordered_json& quantization = root["quantization"];
  quantization["quant_algo"] = "NVFP4";
  quantization["kv_cache_quant_algo"] = "none";
  quantization["group_size"] = 16;
  quantization["exclude_modules"] = quant.exclude_modules;
  nlohmann::ordered_json& modelopt = quantization["modelopt_quant_config"];
  modelopt["algorithm"] = "max";
  modelopt["quant_cfg"]["*weight_quantizer"] = quantizer();
  modelopt["quant_cfg"]["*input_quantizer"] = quantizer();
  modelopt["quant_cfg"]["default"] = {{"enable", false}};
  return root.dump(2);
}

}  // namespace inkstone::checkpoint
