// SPDX-License-Identifier: Apache-2.0
#include "app/build_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "app/console.h"
#include "app/cuda_library.h"
#include "app/doctor/self_check.h"
#include "app/loading/memory_limit.h"
#include "app/model_folder.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"
#include "backends/reference/reference_backend.h"
#include "base/log.h"
#include "engine/decoder_runner.h"
#include "model/device_weights.h"

namespace inkstone::app {

namespace {

// The GPU that --backend cuda takes.
constexpr int kDevice = 0;

bool has_usable_gpu() {
  const auto library = load_cuda_library();
  if (!library) return false;
  const std::vector<cuda::DeviceInfo> devices = (*library)->list_devices();
  return !devices.empty() && cuda::choose_kernels(devices[kDevice], (*library)->built_capabilities());
}

// Weights in the backend's memory, once the backend has shown that it computes with both number types.
Result<model::DeviceWeights> move_weights(const model::ModelWeights& host, ops::Backend& backend) {
  INK_TRY(check_product(backend));
  INK_TRY(check_nvfp4_product(backend));
  model::DeviceWeights moved = INK_TRY(model::upload_weights(host, backend));
  log::info(fmt::format("{} of weights to {} in {:.2f} s: {:.1f} GB/s", spell_bytes(moved.bytes),
                        backend.name(), moved.seconds, moved.bytes_per_second() / 1e9));
  return moved;
}

std::unique_ptr<ops::Backend> make_cpu_backend(const CommonOptions& options, int threads) {
  auto backend =
      std::make_unique<cpu::CpuBackend>(ThreadPoolOptions{.threads = threads, .pin = options.pin_threads});
  if (options.cpu_activations != "bf16") return backend;
  backend->round_activations();
  log::info(cpu::has_pair_product() ? "BF16 activations: by the processor's dot product"
                                    : "BF16 activations: without a dot product here, so nothing gets faster");
  return backend;
}

}  // namespace

std::vector<std::string> built_backends() {
  std::vector<std::string> names;
  if (load_cuda_library()) names.emplace_back("cuda");
  names.insert(names.end(), {"cpu", "reference"});
  return names;
}

std::vector<std::string> usable_backends() {
  std::vector<std::string> names = built_backends();
  if (!has_usable_gpu()) std::erase(names, "cuda");
  return names;
}

std::string automatic_backend() { return usable_backends().front(); }

Result<std::unique_ptr<ops::Backend>> make_backend(const CommonOptions& options) {
  const std::string chosen = options.backend == "auto" ? automatic_backend() : options.backend;
  const int threads = usable_threads(options.threads);
  if (options.threads > threads)
    log::info(fmt::format("--threads {}: this process may use {} CPUs at a time", options.threads, threads));
  if (chosen == "cpu") return make_cpu_backend(options, threads);
  if (options.cpu_activations != "f32" || options.pin_threads)
    return fail(ErrorKind::kUnsupported, "--cpu-activations, --pin-threads: of the CPU backend only");
  if (chosen == "reference") return std::make_unique<reference::ReferenceBackend>(threads);
  if (chosen == "cuda") return INK_TRY(load_cuda_library())->make_backend(kDevice);
  return fail(ErrorKind::kUnsupported, fmt::format("--backend {}: this build has auto, {}", options.backend,
                                                   fmt::join(built_backends(), ", ")));
}

Result<std::unique_ptr<ops::Backend>> make_backend(const std::string& name, std::int64_t threads) {
  CommonOptions options;
  options.backend = name;
  options.threads = threads;
  return make_backend(options);
}

Result<std::unique_ptr<LoadedModel>> load_model(const CommonOptions& options) {
  std::unique_ptr<ops::Backend> backend = INK_TRY(make_backend(options));
  std::string folder = INK_TRY(find_model(options.model));
  FrontEnd front = INK_TRY(load_front_end(folder));
  checkpoint::Checkpoint checkpoint = INK_TRY(checkpoint::Checkpoint::open(folder));
  INK_TRY(check_agreement(checkpoint.config(), front));
  model::DeviceWeights loaded{.weights = model::host_weights(checkpoint), .memory = nullptr};
  INK_TRY(limit_memory(options, folder, checkpoint, loaded.weights, *backend));
  if (!backend->host_memory()) loaded = INK_TRY(move_weights(loaded.weights, *backend));
  return std::make_unique<LoadedModel>(LoadedModel{std::move(folder), std::move(front), std::move(checkpoint),
                                                   std::move(loaded.weights), std::move(backend),
                                                   std::move(loaded.memory)});
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
                                                     const engine::EngineOptions& wanted) {
  const checkpoint::ModelConfig& config = model.config();
  // A device takes a picture of the largest size at once.
  constexpr std::int64_t kDeviceEncoderRows = 2048;
  engine::EngineOptions options = wanted;
  if (!model.backend->host_memory()) options.encoder_rows = kDeviceEncoderRows;
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
