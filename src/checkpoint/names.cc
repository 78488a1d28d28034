// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/names.h"

#include <fmt/format.h>

#include <array>
#include <optional>

namespace inkstone::checkpoint {
namespace {

struct Rename {
  std::string_view hf;
  std::string_view native;
  StoredPart part = StoredPart::kWhole;
};

// Whole names below a layer's prefix (`spec/checkpoint.md` 4). Trunk layers and heads share them.
constexpr std::array<Rename, 26> kLayerNames = {{
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "mlp_norm.weight"},
    {"self_attn.q_proj.weight", "attn.wq_du.weight"},
    {"self_attn.k_proj.weight", "attn.wk_dv.weight"},
    {"self_attn.v_proj.weight", "attn.wv_dv.weight"},
    {"self_attn.r_proj.weight", "attn.wr_du.weight"},
    {"self_attn.o_proj.weight", "attn.wo_ud.weight"},
    {"self_attn.q_norm.weight", "attn.q_norm.weight"},
    {"self_attn.k_norm.weight", "attn.k_norm.weight"},
    {"self_attn.k_sconv.conv1d.weight", "attn.k_sconv.weight"},
    {"self_attn.v_sconv.conv1d.weight", "attn.v_sconv.weight"},
    {"self_attn.rel_logits_proj.proj", "attn.rel_logits_proj.proj"},
    {"attn_sconv.conv1d.weight", "attn_sconv.weight"},
    {"mlp_sconv.conv1d.weight", "mlp_sconv.weight"},
    {"mlp.gate_proj.weight", "mlp.w13_dn.weight", StoredPart::kGate},
    {"mlp.up_proj.weight", "mlp.w13_dn.weight", StoredPart::kUp},
    {"mlp.down_proj.weight", "mlp.w2_md.weight"},
    {"mlp.global_scale", "mlp.global_scale"},
    {"mlp.gate.weight", "mlp.gate.weight"},
    {"mlp.gate.global_scale", "mlp.gate.global_scale"},
    {"mlp.gate.e_score_correction_bias", "mlp.gate.bias"},
    {"mlp.shared_experts.gate_proj", "mlp.shared_experts.shared_w13_weight", StoredPart::kGate},
    {"mlp.shared_experts.up_proj", "mlp.shared_experts.shared_w13_weight", StoredPart::kUp},
    {"mlp.shared_experts.down_proj", "mlp.shared_experts.shared_w2_weight"},
    {"mlp.experts.gate_up_proj", "mlp.experts.w13_weight", StoredPart::kHalves},
    {"mlp.experts.down_proj", "mlp.experts.w2_weight"},
}};

constexpr std::array<Rename, 4> kTrunkNames = {{
    {"embed_tokens.weight", "model.llm.embed.weight"},
    {"embed_norm.weight", "model.llm.embed_norm.weight"},
    {"embed_tokens.embed_norm.weight", "model.llm.embed_norm.weight"},
    {"norm.weight", "model.llm.norm.weight"},
}};

// Companions in the spelling of compressed-tensors. Its global scale is the reciprocal of the vendor's
// `scale2`, so that one keeps a name of its own.
constexpr std::array<Rename, 2> kCompressedTails = {{
    {".weight_packed", ""},
    {".weight_scale", ".scale"},
}};

constexpr std::array<std::string_view, 8> kCompanionTails = {
    ".scale",         ".scale2",       ".input_amax",          ".original_shape",
    ".weight_packed", ".weight_scale", ".weight_global_scale", ".input_global_scale"};

std::optional<std::string_view> after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

// "12.rest" -> {"12", "rest"}; empty number when there is none.
std::pair<std::string_view, std::string_view> split_number(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789");
  if (end == std::string_view::npos || text[end] != '.') return {};
  return {text.substr(0, end), text.substr(end + 1)};
}

// Splits off a companion's tail, empty when there is none.
std::pair<std::string_view, std::string_view> split_tail(std::string_view text) {
  for (const std::string_view tail : kCompanionTails)
    if (text.ends_with(tail)) return {text.substr(0, text.size() - tail.size()), tail};
  return {text, {}};
}

std::string_view native_tail(std::string_view tail) {
  for (const Rename& rename : kCompressedTails)
    if (tail == rename.hf) return rename.native;
  return tail;
}

std::optional<NativeName> layer_name(std::string_view prefix, std::string_view below) {
  const auto [stem, tail] = split_tail(below);
  for (const Rename& rename : kLayerNames)
    if (stem == rename.hf) return NativeName{fmt::format("{}{}{}", prefix, rename.native, tail), rename.part};
  return std::nullopt;
}

// Below "model.language_model." or, in the text-only class, "model.".
std::optional<NativeName> trunk_name(std::string_view below) {
  for (const Rename& rename : kTrunkNames)
    if (below == rename.hf) return NativeName{std::string(rename.native)};
  const auto numbered = after(below, "layers.");
  if (!numbered) return std::nullopt;
  const auto [number, rest] = split_number(*numbered);
  return number.empty() ? std::nullopt : layer_name(fmt::format("model.llm.layers.{}.", number), rest);
}

std::optional<NativeName> tower_name(std::string_view stored) {
  if (stored == "model.vision_tower.final_norm.weight") return NativeName{"model.visual.final_norm.weight"};
  if (stored == "model.audio_tower.norm.weight") return NativeName{"model.audio.final_norm.weight"};
  if (stored == "model.audio_tower.embed_audio_tokens.embed_audio_tokens.weight")
    return NativeName{"model.audio.encoder.weight"};
  const auto numbered = after(stored, "model.vision_tower.encoder_layers.");
  if (!numbered) return std::nullopt;
  const auto [number, rest] = split_number(*numbered);
  if (number.empty()) return std::nullopt;
  if (rest == "projection.weight")
    return NativeName{fmt::format("model.visual.layers.linear_{}.weight", number)};
  if (rest == "layer_norm.weight")
    return NativeName{fmt::format("model.visual.layers.norm_{}.weight", number)};
  return std::nullopt;
}

// The module of the heads is saved on its own ("layers.0.enorm.weight") or below a prefix.
std::optional<NativeName> mtp_name(std::string_view stored) {
  std::string_view below = stored;
  for (const std::string_view prefix : {"model.mtp.", "mtp."})
    if (const auto rest = after(stored, prefix)) {
      below = *rest;
      break;
    }
  if (below == "shared_post_norm.weight") return NativeName{"model.mtp.chain_norm.weight"};
  const auto numbered = after(below, "layers.");
  if (!numbered) return std::nullopt;
  const auto [number, rest] = split_number(*numbered);
  if (number.empty()) return std::nullopt;
  const std::string prefix = fmt::format("model.mtp.layers.{}.", number);
  if (rest == "enorm.weight") return NativeName{prefix + "embed_norm.weight"};
  if (rest == "hnorm.weight") return NativeName{prefix + "hidden_norm.weight"};
  if (rest == "eh_proj.weight") return NativeName{prefix + "input_proj.weight"};
  const auto block = after(rest, "mtp_block.");
  return block ? layer_name(prefix + "transformer_block.", *block) : std::nullopt;
}

std::optional<NativeName> hf_name(std::string_view stored) {
  if (stored.starts_with("model.llm.")) return std::nullopt;
  if (auto name = mtp_name(stored)) return name;
  if (auto name = tower_name(stored)) return name;
  if (stored == "lm_head.weight") return NativeName{"model.llm.unembed.weight"};
  if (const auto below = after(stored, "model.language_model.")) return trunk_name(*below);
  if (const auto below = after(stored, "model.")) return trunk_name(*below);
  return std::nullopt;
}

}  // namespace

NativeName native_name(std::string_view stored) {
  NativeName native = hf_name(stored).value_or(NativeName{std::string(stored)});
  const auto [stem, tail] = split_tail(native.name);
  native.name = fmt::format("{}{}", stem, native_tail(tail));
  return native;
}

}  // namespace inkstone::checkpoint
