// SPDX-License-Identifier: Apache-2.0
// tests/speculation/subject.h - the shipped mini on the backend that the executable is for.
#pragma once

#include <memory>
#include <string>

#include "app/build_engine.h"

namespace inkstone::testing {

// INKSTONE_TESTED_BACKEND of the build, or what the environment's INKSTONE_TEST_BACKEND names. "recording" is
// the reference backend as a device would be: it records, and drafts with the step.
std::string tested_backend();
bool tested_backend_runs_here();

// Loaded once per process.
const app::LoadedModel& subject();
std::unique_ptr<engine::Engine> subject_engine(const engine::EngineOptions& options);

}  // namespace inkstone::testing
