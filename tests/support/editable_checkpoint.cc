// SPDX-License-Identifier: Apache-2.0
#include "tests/support/editable_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "checkpoint/files/mapped_file.h"
#include "checkpoint/files/safetensors.h"

namespace inkstone::test_support {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Tensors = std::map<std::string, EditableTensor>;

Status load_tensors(const std::string& path, Tensors& tensors) {
  const checkpoint::MappedFile file = INK_TRY(checkpoint::MappedFile::open(path));
  for (const checkpoint::StoredTensor& stored : INK_TRY(checkpoint::parse_safetensors(file.bytes(), path))) {
    EditableTensor tensor{stored.dtype, {}, {}};
    for (int axis = 0; axis < stored.shape.rank(); ++axis) tensor.shape.push_back(stored.shape[axis]);
    const auto bytes = file.bytes().subspan(stored.begin, stored.end - stored.begin);
    tensor.bytes.assign(bytes.begin(), bytes.end());
    tensors.emplace(stored.name, std::move(tensor));
  }
  return {};
}

bool of_heads(const std::string& name) {
  return name.find("mtp") != std::string::npos || name.starts_with("layers.");
}

int bytes_each(const std::string& dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "F32") return 4;
  return dtype == "BF16" || dtype == "F16" ? 2 : 1;
}

// Wide types first, so that an aligned start aligns everything.
std::vector<std::string> payload_order(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  std::stable_sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return bytes_each(tensors.at(a).dtype) > bytes_each(tensors.at(b).dtype);
  });
  return names;
}

}  // namespace

std::string read_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  INK_CHECK(stream.good(), path);
}

Status write_tensors(const std::string& path, const Tensors& tensors, bool misaligned) {
  ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  std::size_t end = 0;
  std::string payload;
  for (const std::string& name : payload_order(tensors)) {
    const EditableTensor& tensor = tensors.at(name);
    const std::size_t begin = end;
    end += tensor.bytes.size();
    header[name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    payload.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8 + (misaligned ? 1 : 0), ' ');
  std::string bytes(8, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, 8);
  write_bytes(path, bytes + text + payload);
  return {};
}

Result<EditableCheckpoint> EditableCheckpoint::load(const std::string& folder) {
  EditableCheckpoint result;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".safetensors")
      INK_TRY(load_tensors(entry.path().string(), result.tensors));
    else if (fs::is_regular_file(entry.path()) && name != "model.safetensors.index.json")
      result.texts.emplace(name, read_bytes(entry.path().string()));
  }
  if (code) return fail(ErrorKind::kIo, fmt::format("{}: {}", folder, code.message()));
  return result;
}

Status EditableCheckpoint::save(const std::string& folder, const SaveOptions& options) const {
  fs::create_directories(folder);
  for (const auto& [name, text] : texts) write_bytes(folder + "/" + name, text);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  if (options.reversed) std::reverse(names.begin(), names.end());

  std::map<std::string, Tensors> files;
  std::size_t next = 0;
  const std::size_t per_shard = names.size() / static_cast<std::size_t>(options.shards) + 1;
  for (const std::string& name : names) {
    const std::string file = of_heads(name) ? "mtp.safetensors"
                                            : fmt::format("model-{:05}-of-{:05}.safetensors",
                                                          next++ / per_shard + 1, options.shards);
    files[file].emplace(name, tensors.at(name));
  }
  ordered_json index;
  index["weight_map"] = ordered_json::object();
  for (const auto& [file, content] : files) {
    INK_TRY(write_tensors(folder + "/" + file, content, options.misaligned));
    for (const auto& [name, tensor] : content) index["weight_map"][name] = file;
  }
  if (options.index) write_bytes(folder + "/model.safetensors.index.json", index.dump(1));
  return {};
}

void EditableCheckpoint::drop(const std::string& prefix) {
  std::erase_if(tensors, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "inkstone-test-XXXXXX").string();
  INK_CHECK(mkdtemp(pattern.data()) != nullptr, pattern);
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace inkstone::test_support
