// SPDX-License-Identifier: Apache-2.0
// checkpoint/files/mapped_file.h - a file in memory without reading it: pages come from the disk when
// touched.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace inkstone::checkpoint {

// Read-only and private, so a mapping of any size costs address space only. A file that is shortened while it
// is mapped kills the process at the next touch, as with any mapping.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace inkstone::checkpoint
