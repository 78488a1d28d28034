// SPDX-License-Identifier: Apache-2.0
// fetch/allowed_folder.h - files that clients may name: those below one folder of the operator's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace inkstone::fetch {

// Thread-safe.
class AllowedFolder {
 public:
  // kInvalidArgument where `path` is no folder that can be read.
  static Result<AllowedFolder> open(const std::string& path);
  AllowedFolder(AllowedFolder&& other) noexcept;
  AllowedFolder& operator=(AllowedFolder&&) = delete;
  ~AllowedFolder();

  // `reference`: "file://" and an absolute path, a path below the folder, or an absolute one that leads into
  // it. Every step of the way is opened from the one before, without following links, so that nothing leads
  // out of the folder, whatever changes meanwhile; "..", links and what is no plain file are refused. Errors
  // do not tell what exists outside.
  [[nodiscard]] Result<std::string> read(std::string_view reference, std::int64_t max_bytes) const;

 private:
  AllowedFolder(int folder, std::string path) : folder_(folder), path_(std::move(path)) {}
  [[nodiscard]] Result<std::string> path_below(std::string_view reference) const;

  int folder_ = -1;   // descriptor
  std::string path_;  // without links, for absolute references
};

}  // namespace inkstone::fetch
