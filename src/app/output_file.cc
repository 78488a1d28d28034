// SPDX-License-Identifier: Apache-2.0
#include "app/output_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace inkstone::app {

namespace fs = std::filesystem;

Status check_parent_folder(const std::string& path, const std::string& what) {
  if (path.empty()) return invalid(fmt::format("{}: the path is empty", what));
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored))
    return invalid(fmt::format("{} {} cannot be written: {} is no folder", what, path, folder));
  if (access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return invalid(fmt::format("{} {} cannot be written: {}: {}", what, path, folder, std::strerror(errno)));
}

Result<OutputFile> OutputFile::create(const std::string& path, const std::string& what) {
  std::error_code ignored;
  INK_TRY(check_parent_folder(path, what));
  if (fs::is_directory(path, ignored)) return invalid(fmt::format("{} {} is a folder", what, path));
  std::string draft = fmt::format("{}.unfinished-{}", path, getpid());
  fs::remove(draft, ignored);
  return OutputFile(path, std::move(draft));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), draft_(std::exchange(other.draft_, {})) {}

OutputFile::~OutputFile() {
  if (!draft_.empty()) unlink(draft_.c_str());
}

Status OutputFile::commit() {
  if (std::rename(draft_.c_str(), path_.c_str()) != 0)
    return fail(ErrorKind::kIo, fmt::format("{} cannot be written: {}", path_, std::strerror(errno)));
  draft_.clear();
  return {};
}

}  // namespace inkstone::app
