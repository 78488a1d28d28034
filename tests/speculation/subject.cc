// SPDX-License-Identifier: Apache-2.0
#include "tests/speculation/subject.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "tests/support/golden_data.h"
#include "tests/support/recording_backend.h"

namespace inkstone::testing {
namespace {

template <class T>
T value_of(Result<T> result) {
  INK_CHECK(result.has_value(), result ? "" : result.error().message);
  return std::move(*result);
}

}  // namespace

std::string tested_backend() {
  const char* named = std::getenv("INKSTONE_TEST_BACKEND");
  return named != nullptr ? named : INKSTONE_TESTED_BACKEND;
}

bool tested_backend_runs_here() {
  if (tested_backend() == "recording") return true;
  const std::vector<std::string> usable = app::usable_backends();
  return std::find(usable.begin(), usable.end(), tested_backend()) != usable.end();
}

const app::LoadedModel& subject() {
  // Lives until exit, as a device does.
  static const app::LoadedModel& model = *[] {
    app::CommonOptions options;
    options.model = source_path("models/inkling-mini");
    const bool records = tested_backend() == "recording";
    options.backend = records ? "reference" : tested_backend();
    app::LoadedModel* const loaded = value_of(app::load_model(options)).release();
    if (records) loaded->backend = std::make_unique<RecordingBackend>(2);
    return loaded;
  }();
  return model;
}

std::unique_ptr<engine::Engine> subject_engine(const engine::EngineOptions& options) {
  return value_of(app::build_engine(subject(), options));
}

}  // namespace inkstone::testing
