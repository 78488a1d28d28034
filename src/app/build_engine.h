// SPDX-License-Identifier: Apache-2.0
// app/build_engine.h - options to running objects: the only place that names concrete backends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/front_end.h"
#include "app/options.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace inkstone::app {

// The backends of this build, best first; those of them that this machine can run, of which `auto` takes the
// first.
std::vector<std::string> built_backends();
std::vector<std::string> usable_backends();
std::string automatic_backend();

// The backend that the options name, "auto" included, with at most as many threads as the process may use.
// kUnsupported names what this build has, or the option that another backend does not know.
Result<std::unique_ptr<ops::Backend>> make_backend(const CommonOptions& options);
// The same by its name alone.
Result<std::unique_ptr<ops::Backend>> make_backend(const std::string& name, std::int64_t threads);

// A checkpoint ready to compute, and its tokenizer. Members refer to each other: it stays where it is.
struct LoadedModel {
  std::string folder;
  FrontEnd front;
  checkpoint::Checkpoint checkpoint;
  model::ModelWeights weights;  // in the backend's memory
  std::unique_ptr<ops::Backend> backend;
  ops::Buffer memory;  // of the weights, where the backend does not read the mapped files

  [[nodiscard]] const checkpoint::ModelConfig& config() const { return checkpoint.config(); }
};

Result<std::unique_ptr<LoadedModel>> load_model(const CommonOptions& options);

// Refuses --nvfp4-activations where no expert is NVFP4: it would have no effect.
Status check_nvfp4_activations(const LoadedModel& model);

// An engine with its thread; the model outlives it.
Result<std::unique_ptr<engine::Engine>> build_engine(const LoadedModel& model,
                                                     const engine::EngineOptions& options);
// Of one sequence at a time.
engine::EngineOptions single_sequence(std::int64_t max_context_tokens);

}  // namespace inkstone::app
