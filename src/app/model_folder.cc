// SPDX-License-Identifier: Apache-2.0
#include "app/model_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

namespace inkstone::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShipped = "models/inkling-mini";

bool holds_model(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "config.json", ignored);
}

}  // namespace

Result<std::string> find_model(const std::string& named) {
  if (!named.empty()) {
    if (holds_model(named)) return named;
    return fail(ErrorKind::kNotFound,
                fmt::format("--model {} is no checkpoint: it holds no config.json", named));
  }
  std::error_code ignored;
  const fs::path binary = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& root :
       {binary, binary / "../share/inkstone", binary / "../..", fs::path(INKSTONE_HOME)}) {
    const fs::path folder = (root / kShipped).lexically_normal();
    if (holds_model(folder)) return folder.string();
  }
  return fail(ErrorKind::kNotFound,
              fmt::format("{} was not found; name a checkpoint with --model", kShipped));
}

}  // namespace inkstone::app
