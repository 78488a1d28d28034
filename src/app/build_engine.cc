// SPDX-License-Identifier: Apache-2.0
#include "app/build_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "app/model_folder.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/reference/reference_backend.h"
#include "engine/decoder_runner.h"

namespace inkstone::app {

std::vector<std::string> built_backends() { return {"cpu", "reference"}; }

std::string automatic_backend() { return "cpu"; }

Result<std::unique_ptr<ops::Backend>> make_backend(const std::string& name, std::int64_t threads) {
  const std::string chosen = name == "auto" ? automatic_backend() : name;
  if (chosen == "cpu") return std::make_unique<cpu::CpuBackend>(static_cast<int>(threads));
  if (chosen == "reference") return std::make_unique<reference::ReferenceBackend>(static_cast<int>(threads));
  return fail(ErrorKind::kUnsupported,
              fmt::format("--backend {}: this build has auto, {}", name, fmt::join(built_backends(), ", ")));
}

Result<std::unique_ptr<LoadedModel>> load_model(const CommonOptions& options) {
  std::unique_ptr<ops::Backend> backend = INK_TRY(make_backend(options.backend, options.threads));
  std::string folder = INK_TRY(find_model(options.model));
  FrontEnd front = INK_TRY(load_front_end(folder));
  checkpoint::Checkpoint checkpoint = INK_TRY(checkpoint::Checkpoint::open(folder));
  INK_TRY(check_agreement(checkpoint.config(), front));
  model::ModelWeights weights = model::host_weights(checkpoint);
  return std::make_unique<LoadedModel>(LoadedModel{std::move(folder), std::move(front), std::move(checkpoint),
                                                   std::move(weights), std::move(backend)});
}

Status check_nvfp4_activations(const LoadedModel& model) {
  const auto& layers = model.weights.layers;
  const bool quantised = std::any_of(layers.begin(), layers.end(), [](const model::BlockWeights& layer) {
    return layer.moe && layer.moe->routed_w13.gate.quantised();
  });
  if (quantised) return {};
  return invalid(fmt::format("--nvfp4-activations: the checkpoint {} has no NVFP4 experts", model.folder));
}

Result<std::unique_ptr<engine::Engine>> build_engine(const LoadedModel& model,
                                                     const engine::EngineOptions& options) {
  const checkpoint::ModelConfig& config = model.config();
  const engine::DecoderParts parts{&config, &model.weights, model.backend.get()};
  std::unique_ptr<engine::ModelRunner> runner =
      INK_TRY(engine::DecoderRunner::create(parts, options, forbidden_ids(config, model.front)));
  return engine::Engine::create(std::move(runner), options,
                                {config.valid_vocabulary, config.valid_vocabulary});
}

engine::EngineOptions single_sequence(std::int64_t max_context_tokens) {
  engine::EngineOptions options;
  options.max_context_tokens = max_context_tokens;
  options.max_sequences = 1;
  options.swap_bytes = 0;  // nobody to give way to
  options.token_budget = 512;
  options.max_chunk_tokens = 512;
  return options;
}

}  // namespace inkstone::app
