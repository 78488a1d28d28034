// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/files/shards.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/log.h"
#include "checkpoint/files/json_text.h"
#include "checkpoint/files/problems.h"

namespace inkstone::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kMtpName = "mtp.safetensors";

using WeightMap = std::map<std::string, std::string>;  // tensor -> file

struct Index {
  WeightMap map;
  std::optional<std::uint64_t> total_bytes;
};

// A file name that leads out of the folder is not one that a checkpoint needs.
bool plain_name(const std::string& file) {
  return !file.empty() && file != "." && file != ".." && file.find('/') == std::string::npos &&
         file.find('\0') == std::string::npos;
}

Result<Index> read_index(const std::string& folder) {
  const std::string text = INK_TRY(read_text_file(folder + "/" + kIndexName));
  const json index = INK_TRY(parse_json(text, kIndexName));
  if (!index.is_object() || !index.contains("weight_map") || !index.at("weight_map").is_object())
    return fail(ErrorKind::kCorrupt, fmt::format("{} has no weight_map", kIndexName));
  Index result;
  const auto metadata = index.find("metadata");
  if (metadata != index.end() && metadata->is_object() && metadata->contains("total_size") &&
      metadata->at("total_size").is_number_unsigned())
    result.total_bytes = metadata->at("total_size").get<std::uint64_t>();
  for (const auto& [tensor, file] : index.at("weight_map").items()) {
    if (!file.is_string() || !plain_name(file.get<std::string>()))
      return fail(ErrorKind::kCorrupt,
                  fmt::format("{} names no file of this folder for tensor {}", kIndexName, tensor));
    result.map.emplace(tensor, file.get<std::string>());
  }
  return result;
}

Result<std::set<std::string>> list_safetensors(const std::string& folder) {
  std::set<std::string> files;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code))
    if (entry->path().extension() == ".safetensors") files.insert(entry->path().filename().string());
  if (code) return fail(ErrorKind::kIo, fmt::format("{} cannot be listed: {}", folder, code.message()));
  return files;
}

std::set<std::string> indexed_files(const WeightMap& map, const std::set<std::string>& present) {
  std::set<std::string> files;
  for (const auto& [tensor, file] : map) files.insert(file);
  if (present.contains(kMtpName)) files.insert(kMtpName);
  std::vector<std::string> ignored;
  for (const std::string& file : present)
    if (!files.contains(file)) ignored.push_back(file);
  if (!ignored.empty())
    log::warning(fmt::format("{} does not name {}: ignored", kIndexName, first_few(ignored)));
  return files;
}

Result<Shard> open_shard(const std::string& folder, const std::string& file) {
  MappedFile mapping = INK_TRY(MappedFile::open(folder + "/" + file));
  std::vector<StoredTensor> tensors = INK_TRY(parse_safetensors(mapping.bytes(), file));
  return Shard{file, std::move(mapping), std::move(tensors)};
}

// Opens what can be opened; what cannot is named, missing files with the number of tensors they take along.
std::vector<Shard> open_all(const std::string& folder, const std::set<std::string>& files,
                            Problems& problems) {
  std::vector<Shard> shards;
  for (const std::string& file : files) {
    std::error_code code;
    if (!fs::exists(folder + "/" + file, code)) {
      problems.add(fmt::format("file {} named by {} does not exist", file, kIndexName));
      continue;
    }
    auto shard = open_shard(folder, file);
    if (shard)
      shards.push_back(std::move(*shard));
    else
      problems.add(shard.error().message);
  }
  return shards;
}

WeightMap locate(const std::vector<Shard>& shards, Problems& problems) {
  WeightMap found;
  for (const Shard& shard : shards)
    for (const StoredTensor& tensor : shard.tensors) {
      const auto [place, inserted] = found.emplace(tensor.name, shard.file);
      if (!inserted)
        problems.add(
            fmt::format("tensor {} stands in both {} and {}", tensor.name, place->second, shard.file));
    }
  return found;
}

void compare(const WeightMap& index, const WeightMap& found, Problems& problems) {
  for (const auto& [tensor, file] : index) {
    const auto place = found.find(tensor);
    if (place == found.end())
      problems.add(fmt::format("{} places tensor {} in {}, which lacks it", kIndexName, tensor, file));
    else if (place->second != file)
      problems.add(
          fmt::format("{} places tensor {} in {}, it stands in {}", kIndexName, tensor, file, place->second));
  }
  std::set<std::string> named;
  for (const auto& [tensor, file] : index) named.insert(file);
  for (const auto& [tensor, file] : found)
    if (named.contains(file) && !index.contains(tensor))
      problems.add(fmt::format("tensor {} of {} is missing in {}", tensor, file, kIndexName));
}

// Writers disagree on what the number counts (parameters, bytes, with or without the heads), so a difference
// is no fault of the tensors.
void compare_total(std::uint64_t claimed, const std::vector<Shard>& shards) {
  std::uint64_t total = 0;
  for (const Shard& shard : shards)
    for (const StoredTensor& tensor : shard.tensors) total += tensor.end - tensor.begin;
  if (total != claimed)
    log::warning(fmt::format("{} counts {} bytes, the tensors have {}", kIndexName, claimed, total));
}

}  // namespace

Result<std::vector<Shard>> open_shards(const std::string& folder) {
  const std::set<std::string> present = INK_TRY(list_safetensors(folder));
  std::error_code code;
  const bool indexed = fs::exists(folder + "/" + kIndexName, code);
  const Index index = indexed ? INK_TRY(read_index(folder)) : Index{};
  const std::set<std::string> files = indexed ? indexed_files(index.map, present) : present;
  if (files.empty()) return fail(ErrorKind::kNotFound, fmt::format("{} holds no safetensors file", folder));

  Problems problems;
  std::vector<Shard> shards = open_all(folder, files, problems);
  // A file that could not be read would make every tensor of it a problem of its own.
  if (problems.empty()) {
    const WeightMap found = locate(shards, problems);
    if (indexed) compare(index.map, found, problems);
  }
  INK_TRY(problems.finish(folder));
  if (index.total_bytes) compare_total(*index.total_bytes, shards);
  return shards;
}

}  // namespace inkstone::checkpoint
