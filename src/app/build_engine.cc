// SPDX-License-Identifier: Apache-2.0
#include "app/build_engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "app/model_folder.h"
#include "backends/reference/reference_backend.h"

namespace inkstone::app {

std::vector<std::string> built_backends() { return {"reference"}; }

std::string automatic_backend() { return "reference"; }

Result<std::unique_ptr<ops::Backend>> make_backend(const std::string& name, std::int64_t threads) {
  const std::string chosen = name == "auto" ? automatic_backend() : name;
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

}  // namespace inkstone::app
