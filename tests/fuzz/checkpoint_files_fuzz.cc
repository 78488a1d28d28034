// SPDX-License-Identifier: Apache-2.0
// Files of a checkpoint: headers of safetensors files, config.json, hf_quant_config.json. One is refused with
// a message, or what it yields keeps the promises of its header file.
#include <cstring>

#include "base/check.h"
#include "base/log.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/files/safetensors.h"
#include "checkpoint/model_config.h"
#include "checkpoint/quant_config.h"
#include "tests/support/fuzz_driver.h"

namespace inkstone {
namespace {

using checkpoint::StoredTensor;

void check_one_line(const Error& error) {
  INK_CHECK(!error.message.empty());
  INK_CHECK(error.message.size() < 10000);
}

// Tensors tile the payload, and each has the bytes of its shape.
void check_header(std::span<const std::byte> file) {
  const auto tensors = checkpoint::parse_safetensors(file, "fuzz.safetensors");
  if (!tensors) return check_one_line(tensors.error());
  std::uint64_t end = tensors->empty() ? file.size() : tensors->front().begin;
  for (const StoredTensor& tensor : *tensors) {
    INK_CHECK(tensor.begin == end && tensor.end >= tensor.begin);
    end = tensor.end;
    if (!tensor.type) continue;
    const auto bytes = static_cast<std::uint64_t>(tensor.shape.num_elements() * size_bytes(*tensor.type));
    INK_CHECK(bytes == tensor.end - tensor.begin);
  }
  INK_CHECK(end == file.size());
}

// The text as a header with its right length and a small payload: mutants of whole files rarely get past the
// length.
void check_as_header(std::string_view text) {
  std::string file(8, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(file.data(), &length, 8);
  file += text;
  file.resize(file.size() + 24);
  check_header(std::as_bytes(std::span(file)));
}

void check_config(std::string_view text) {
  const auto config = checkpoint::parse_model_config(text);
  if (!config) return check_one_line(config.error());
  INK_CHECK(config->num_layers() > 0 && config->dense_layers <= config->num_layers());
  INK_CHECK(config->chosen_experts <= config->routed_experts);
  INK_CHECK(config->valid_vocabulary <= config->vocabulary);
  if (config->num_layers() + config->num_mtp() < 32)
    INK_CHECK(!checkpoint::expected_tensors(*config).empty());
}

void check_quant_config(std::string_view text) {
  const auto quant = checkpoint::parse_quant_config(text);
  if (!quant) return check_one_line(quant.error());
  for (const std::string& module : quant->exclude_modules) INK_CHECK(quant->excludes(module + ".weight"));
}

constexpr const char* kHeader =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},"c":{"dtype":"U8","shape":[4],"data_offsets":[20,24]}})";

constexpr const char* kConfig =
    R"({"model_type":"inkling_mm_model","eos_token_id":7,"text_config":{"hidden_size":64,"num_hidden_layers":4,)"
    R"("vocab_size":100,"unpadded_vocab_size":99,"model_max_length":512,"num_attention_heads":4,"num_key_value_heads":2,)"
    R"("head_dim":16,"swa_num_attention_heads":4,"swa_num_key_value_heads":4,"swa_head_dim":16,"sliding_window_size":8,)"
    R"("rel_extent":16,"d_rel":4,"log_scaling_n_floor":32,"log_scaling_alpha":0.1,"rms_norm_eps":1e-6,)"
    R"("local_layer_ids":[0,1,2],"dense_mlp_idx":1,"dense_intermediate_size":32,"intermediate_size":16,)"
    R"("n_routed_experts":8,"num_experts_per_tok":2,"n_shared_experts":1,"route_scale":8.0,"use_sconv":true,)"
    R"("logits_mup_width_multiplier":2.0},"mtp_config":{"num_nextn_predict_layers":2,"local_layer_ids":[0]},)"
    R"("vision_config":{"decoder_dmodel":64,"patch_size":10,"temporal_patch_size":2,"n_channels":3,"n_layers":3},)"
    R"("audio_config":{"decoder_dmodel":64,"n_mel_bins":8,"mel_vocab_size":4,"dmel_min_value":-7,"dmel_max_value":2}})";

constexpr const char* kQuantConfig =
    R"({"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"none","group_size":16,)"
    R"("exclude_modules":["model.llm.embed","model.llm.layers.0.attn"]}})";

}  // namespace

std::vector<std::string> test_support::fuzz_seeds() {
  // A seed that is refused would leave everything behind the first check unvisited.
  INK_CHECK(checkpoint::parse_model_config(kConfig).has_value());
  INK_CHECK(checkpoint::parse_quant_config(kQuantConfig).has_value());
  return {kHeader, kConfig, kQuantConfig};
}

}  // namespace inkstone

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  inkstone::log::set_level(inkstone::log::Level::kError);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  inkstone::check_header(std::as_bytes(std::span(data, size)));
  inkstone::check_as_header(text);
  inkstone::check_config(text);
  inkstone::check_quant_config(text);
  return 0;
}
