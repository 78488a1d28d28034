// SPDX-License-Identifier: Apache-2.0
// app/model_folder.h - where the checkpoint is.
#pragma once

#include <string>

#include "base/result.h"

namespace inkstone::app {

// The folder that --model names, or without one the shipped models/inkling-mini. That is looked for beside
// the binary (a bundle), where an installation puts it (../share/inkstone/models), at the root of the build's
// own source tree, and in the source tree that the binary was built from, in this order. kNotFound when the
// folder holds no config.json.
Result<std::string> find_model(const std::string& named);

}  // namespace inkstone::app
