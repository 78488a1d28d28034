// SPDX-License-Identifier: Apache-2.0
// app/output_file.h - a file that appears whole or not at all.
#pragma once

#include <string>

#include "base/result.h"

namespace inkstone::app {

// Refuses (kInvalidArgument) a path whose folder does not exist or takes no new entry.
Status check_parent_folder(const std::string& path, const std::string& what);

// What is written to draft() becomes the file at commit(); without it, nothing is left behind.
class OutputFile {
 public:
  // Refuses (kInvalidArgument) a path that names a folder, or lies in none. `what` names the option.
  static Result<OutputFile> create(const std::string& path, const std::string& what);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // Beside the final path; does not exist yet.
  [[nodiscard]] const std::string& draft() const { return draft_; }
  // Replaces what has the name.
  Status commit();

 private:
  OutputFile(std::string path, std::string draft) : path_(std::move(path)), draft_(std::move(draft)) {}

  std::string path_;
  std::string draft_;  // empty once committed
};

}  // namespace inkstone::app
