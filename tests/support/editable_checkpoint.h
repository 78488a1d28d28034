// SPDX-License-Identifier: Apache-2.0
// tests/support/editable_checkpoint.h - a small checkpoint in memory, to be changed and saved: other names,
// other shards, and every kind of damage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace inkstone::test_support {

struct EditableTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;  // as in the file; need not fit the shape
};

struct SaveOptions {
  int shards = 1;
  bool index = true;
  bool reversed = false;    // the tensors' order over the shards
  bool misaligned = false;  // headers of odd length
};

struct EditableCheckpoint {
  std::map<std::string, EditableTensor> tensors;  // of all files
  std::map<std::string, std::string> texts;       // every other file, by name

  static Result<EditableCheckpoint> load(const std::string& folder);
  // Tensors of heads ("*mtp*", "layers.*") go to mtp.safetensors, the rest into the shards.
  [[nodiscard]] Status save(const std::string& folder, const SaveOptions& options = {}) const;

  // Drops every tensor whose name begins with `prefix`.
  void drop(const std::string& prefix);
};

// One safetensors file, as given; sizes and shapes are not compared.
Status write_tensors(const std::string& path, const std::map<std::string, EditableTensor>& tensors,
                     bool misaligned);

std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, const std::string& bytes);

// A new folder below the system's temporary folder, removed with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace inkstone::test_support
