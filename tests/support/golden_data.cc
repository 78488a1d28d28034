// SPDX-License-Identifier: Apache-2.0
#include "tests/support/golden_data.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/check.h"
#include "checkpoint/files/safetensors.h"

namespace inkstone::testing {

std::string source_path(const std::string& below) {
  const char* const moved = std::getenv("INKSTONE_SOURCE_DIR");
  return std::string(moved != nullptr ? moved : INKSTONE_SOURCE_DIR) + "/" + below;
}

std::string golden_path(const std::string& below) { return source_path("tests/data/golden/" + below); }

GoldenFile::GoldenFile(const std::string& path) {
  std::ifstream file(golden_path(path), std::ios::binary);
  INK_CHECK(file.good(), path);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  contents_.assign(data, data + bytes.size());
  const auto stored = checkpoint::parse_safetensors(contents_, path);
  INK_CHECK(stored.has_value(), stored.has_value() ? "" : stored.error().message);
  for (const auto& entry : *stored) {
    tensors_.emplace(entry.name, TensorView(contents_.data() + entry.begin, *entry.type, entry.shape));
  }
}

const TensorView& GoldenFile::tensor(const std::string& name) const {
  const auto found = tensors_.find(name);
  INK_CHECK(found != tensors_.end(), name);
  return found->second;
}

std::vector<float> GoldenFile::floats(const std::string& name) const {
  const TensorView& view = tensor(name);
  return {view.as<float>(), view.as<float>() + view.shape.num_elements()};
}

std::vector<std::int32_t> GoldenFile::ints(const std::string& name) const {
  const TensorView& view = tensor(name);
  return {view.as<std::int32_t>(), view.as<std::int32_t>() + view.shape.num_elements()};
}

}  // namespace inkstone::testing
