// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/build_engine.h"
#include "app/commands/commands.h"
#include "app/console.h"
#include "cache/ids.h"
#include "cache/memory_plan.h"
#include "checkpoint/verify/against_reference.h"
#include "model/state_spec.h"

namespace inkstone::app {
namespace {

using checkpoint::AttentionShape;
using checkpoint::BankDifference;
using checkpoint::InspectedTensor;
using checkpoint::Inspection;
using checkpoint::ModelConfig;

// What a model takes in memory: weights as stored, and state of the given sequences at their longest.
struct MemoryPlan {
  std::int64_t max_context = 0;
  std::int64_t sequences = 0;
  std::int64_t ranks = 0;
  std::string state_type;
  std::int64_t weight_bytes = 0;               // of one rank
  std::int64_t bytes_per_token = 0;            // pages of the full layers, one rank
  std::int64_t window_bytes_per_sequence = 0;  // windows and convolutions, one rank
  cache::StatePlan state;                      // one rank
};

// Vectors and the router lie on every rank; everything else is divided.
std::int64_t weights_of_rank(const Inspection& found, std::int64_t ranks) {
  std::vector<cache::WeightTensor> tensors;
  for (const InspectedTensor& tensor : found.tensors) {
    const bool router = tensor.name.find(".mlp.gate.") != std::string::npos;
    tensors.push_back({tensor.bytes, tensor.shape.rank() >= 2 && !router});
  }
  return cache::weight_share(tensors, ranks);
}

bool heads_divide(const ModelConfig& config, std::int64_t ranks) {
  return config.global.kv_heads % ranks == 0 && config.sliding.kv_heads % ranks == 0 &&
         config.width % ranks == 0;
}

Result<MemoryPlan> plan_memory(const InspectOptions& options, const Inspection& found) {
  MemoryPlan plan;
  plan.max_context = options.max_context.value_or(found.config.context);
  plan.sequences = options.sequences;
  plan.ranks = options.ranks;
  if (plan.max_context > found.config.context)
    return invalid(fmt::format("--max-context {} exceeds the checkpoint's {} tokens", plan.max_context,
                               found.config.context));
  if (!heads_divide(found.config, plan.ranks))
    return invalid(fmt::format("--tensor-parallel {} does not divide the {} and {} key heads", plan.ranks,
                               found.config.global.kv_heads, found.config.sliding.kv_heads));
  const std::unique_ptr<ops::Backend> backend = INK_TRY(make_backend(options.common.backend, 1));
  model::StateOptions state;
  state.type = backend->activation_type();
  state.ranks = plan.ranks;
  state.mtp_depths = found.config.num_mtp();
  const model::StateSpec spec = model::make_state_spec(found.config, state);
  plan.state_type = std::string(name(state.type));
  plan.weight_bytes = weights_of_rank(found, plan.ranks);
  plan.bytes_per_token = spec.paged_bytes_per_token();
  plan.window_bytes_per_sequence = spec.ring_bytes_per_sequence();
  // Each sequence fills its own pages.
  const std::int64_t pages = plan.sequences * cache::pages_for(plan.max_context);
  plan.state = cache::plan_state(spec, pages * cache::kPageTokens, plan.sequences);
  return plan;
}

std::int64_t count_sliding(const std::vector<bool>& layers) {
  return std::count(layers.begin(), layers.end(), true);
}

nlohmann::ordered_json attention_json(const AttentionShape& shape) {
  return {{"query_heads", shape.query_heads},
          {"kv_heads", shape.kv_heads},
          {"head_dim", shape.head_dim},
          {"window", shape.window},
          {"rel_extent", shape.rel_extent}};
}

nlohmann::ordered_json config_json(const Inspection& found) {
  const ModelConfig& config = found.config;
  return {{"width", config.width},
          {"vocabulary", config.vocabulary},
          {"valid_vocabulary", config.valid_vocabulary},
          {"context", config.context},
          {"layers", config.num_layers()},
          {"layer_is_sliding", config.layer_is_sliding},
          {"sliding", attention_json(config.sliding)},
          {"global", attention_json(config.global)},
          {"dense_layers", config.dense_layers},
          {"dense_width", config.dense_width},
          {"expert_width", config.expert_width},
          {"routed_experts", config.routed_experts},
          {"shared_experts", config.shared_experts},
          {"chosen_experts", config.chosen_experts},
          {"mtp_depths", config.num_mtp()},
          {"vision", found.has_vision},
          {"audio", found.has_audio}};
}

std::vector<std::int64_t> sizes_of(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < shape.rank(); ++axis) sizes.push_back(shape[axis]);
  return sizes;
}

nlohmann::ordered_json parts_json(const cache::StatePlan& state) {
  nlohmann::ordered_json parts = nlohmann::ordered_json::array();
  for (const cache::StatePart& part : state.parts)
    parts.push_back({{"name", part.name}, {"groups", part.groups}, {"bytes", part.bytes}});
  return parts;
}

nlohmann::ordered_json as_json(const InspectOptions& options, const Inspection& found,
                               const MemoryPlan& plan) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const InspectedTensor& tensor : found.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"file", tensor.file},
                       {"dtype", tensor.dtype},
                       {"shape", sizes_of(tensor.shape)},
                       {"bytes", tensor.bytes}});
  return {
      {"folder", options.folder},
      {"files", found.files},
      {"num_tensors", found.tensors.size()},
      {"bytes", found.bytes},
      {"config", config_json(found)},
      {"quantised_layers", found.quantised_layers},
      {"memory",
       {{"max_context", plan.max_context},
        {"sequences", plan.sequences},
        {"tensor_parallel", plan.ranks},
        {"state_type", plan.state_type},
        {"weight_bytes", plan.weight_bytes},
        {"bytes_per_token", plan.bytes_per_token},
        {"window_bytes_per_sequence", plan.window_bytes_per_sequence},
        {"state_bytes", plan.state.bytes},
        {"checkpoint_bytes", plan.state.checkpoint_bytes},
        {"parts", parts_json(plan.state)}}},
      {"problem", found.problem.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(found.problem)},
      {"tensors", std::move(tensors)}};
}

std::string spell_attention(const AttentionShape& shape) {
  const std::string reach =
      shape.window > 0 ? fmt::format("window {}", shape.window) : std::string("all keys");
  return fmt::format("{} query and {} key heads of {}, {}, bias over {}", shape.query_heads, shape.kv_heads,
                     shape.head_dim, reach, shape.rel_extent);
}

std::string spell_parts(const Inspection& found) {
  return fmt::format("{} draft heads, {} vision tower, {} audio tower", found.config.num_mtp(),
                     found.has_vision ? "a" : "no", found.has_audio ? "an" : "no");
}

std::string spell_quantised(const std::vector<std::int64_t>& layers) {
  return layers.empty() ? "none" : fmt::format("layers {}", fmt::join(layers, " "));
}

std::string spell_plan(const MemoryPlan& plan) {
  std::string text = fmt::format("{:<12} {} of weights and {} of {} state a rank, for {} x {} tokens\n",
                                 "memory", spell_bytes(plan.weight_bytes), spell_bytes(plan.state.bytes),
                                 plan.state_type, plan.sequences, plan.max_context);
  for (const cache::StatePart& part : plan.state.parts)
    text += fmt::format("{:<12} {:<24} {}\n", "", part.name, spell_bytes(part.bytes));
  return text;
}

std::string as_text(const InspectOptions& options, const Inspection& found, const MemoryPlan& plan) {
  const ModelConfig& config = found.config;
  const std::int64_t sliding = count_sliding(config.layer_is_sliding);
  std::string text;
  const auto add = [&](std::string_view title, const std::string& value) {
    text += fmt::format("{:<12} {}\n", title, value);
  };
  add("folder", options.folder);
  add("layers", fmt::format("{}: {} sliding, {} global, {} dense; width {}", config.num_layers(), sliding,
                            config.num_layers() - sliding, config.dense_layers, config.width));
  add("sliding", spell_attention(config.sliding));
  add("global", spell_attention(config.global));
  add("experts", fmt::format("{} of {}, {} shared, width {}", config.chosen_experts, config.routed_experts,
                             config.shared_experts, config.expert_width));
  add("vocabulary", fmt::format("{} rows, {} valid; context {} tokens", config.vocabulary,
                                config.valid_vocabulary, config.context));
  add("parts", spell_parts(found));
  add("NVFP4", spell_quantised(found.quantised_layers));
  add("tensors", fmt::format("{} in {} files, {} bytes", found.tensors.size(), found.files, found.bytes));
  for (const auto& [dtype, total] : found.by_dtype)
    add("", fmt::format("{:<8} {} tensors, {} elements, {}", dtype, total.tensors, total.elements,
                        spell_bytes(total.bytes)));
  text += spell_plan(plan);
  for (const InspectedTensor& tensor : found.tensors)
    text += fmt::format("  {:<60} {:<8} {}\n", tensor.name, tensor.dtype, to_string(tensor.shape));
  return text;
}

nlohmann::ordered_json differences_json(const std::vector<BankDifference>& differences) {
  nlohmann::ordered_json banks = nlohmann::ordered_json::array();
  for (const BankDifference& bank : differences)
    banks.push_back({{"name", bank.name},
                     {"weights", bank.weights},
                     {"beyond_rounding", bank.beyond},
                     {"relative_error", bank.relative_error}});
  return {{"differences", std::move(banks)}};
}

std::string differences_text(const std::vector<BankDifference>& differences) {
  std::string text;
  for (const BankDifference& bank : differences)
    text += fmt::format("{:<48} relative error {:.4f}, beyond rounding {} of {}\n", bank.name,
                        bank.relative_error, bank.beyond, bank.weights);
  return text;
}

// An error where some weight is farther from the reference than its code can be: scales in an order of their
// own, halves exchanged, another model.
Status compare(const InspectOptions& options) {
  const auto ours = INK_TRY(checkpoint::Checkpoint::open(options.folder));
  const auto reference = INK_TRY(checkpoint::Checkpoint::open(options.against));
  const auto differences = INK_TRY(checkpoint::compare_with_reference(ours, reference));
  INK_TRY(options.common.json ? print_json(differences_json(differences))
                              : print(differences_text(differences)));
  for (const BankDifference& bank : differences)
    if (bank.beyond > 0)
      return fail(ErrorKind::kCorrupt,
                  fmt::format("{}: {} of {} weights are farther from {} than rounding takes them", bank.name,
                              bank.beyond, bank.weights, options.against));
  return {};
}

}  // namespace

// A folder that would not load is described all the same, and is an error after that.
Status inspect(const InspectOptions& options) {
  if (!options.against.empty()) return compare(options);
  const Inspection found = INK_TRY(checkpoint::inspect(options.folder));
  const MemoryPlan plan = INK_TRY(plan_memory(options, found));
  INK_TRY(options.common.json ? print_json(as_json(options, found, plan))
                              : print(as_text(options, found, plan)));
  if (!found.problem.empty()) return fail(ErrorKind::kCorrupt, found.problem);
  return {};
}

}  // namespace inkstone::app
