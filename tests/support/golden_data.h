// SPDX-License-Identifier: Apache-2.0
// tests/support/golden_data.h - what the public fp32 reference computed: tests/data/golden (its README says
// how).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tensor/tensor_view.h"

namespace inkstone::testing {

// A safetensors file of F32 and I32 tensors, mapped for the life of the process.
class GoldenFile {
 public:
  // `path` below tests/data/golden. Aborts the test program with a message when it cannot be read.
  explicit GoldenFile(const std::string& path);

  [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }
  [[nodiscard]] const TensorView& tensor(const std::string& name) const;
  [[nodiscard]] std::vector<float> floats(const std::string& name) const;
  [[nodiscard]] std::vector<std::int32_t> ints(const std::string& name) const;

 private:
  std::vector<std::byte> contents_;
  std::map<std::string, TensorView> tensors_;
};

// A file of the repository: where the build had it, or below the folder that the environment variable
// INKSTONE_SOURCE_DIR names, for tests that were carried to another machine.
std::string source_path(const std::string& below);
std::string golden_path(const std::string& below);

}  // namespace inkstone::testing
