// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "checkpoint/assembly.h"
#include "checkpoint/files/json_text.h"
#include "checkpoint/files/shards.h"
#include "checkpoint/verify/values.h"

namespace inkstone::checkpoint {

struct Checkpoint::Contents {
  std::string folder;
  ModelConfig config;
  std::vector<Shard> shards;
  Assembly assembly;
  std::int64_t tensor_bytes = 0;

  [[nodiscard]] const Weight& weight(std::string_view name) const {
    const auto found = assembly.weights.find(name);
    INK_CHECK(found != assembly.weights.end(), fmt::format("no weight '{}'", name));
    return found->second;
  }
};

namespace {

Status check_finite(const TensorView& tensor, std::string_view name, std::string_view folder) {
  if (tensor.empty()) return {};
  const auto index = first_non_finite(tensor);
  if (!index) return {};
  return fail(ErrorKind::kCorrupt, fmt::format("{}: tensor {} holds NaN or infinity at {}", folder, name,
                                               coordinate(tensor.shape, *index)));
}

Status check_weight(const Weight& weight, std::string_view name, std::string_view folder,
                    std::int64_t most_bytes) {
  if (weight.data.bytes() <= most_bytes) INK_TRY(check_finite(weight.data, name, folder));
  if (!weight.up.empty() && weight.up.bytes() <= most_bytes) INK_TRY(check_finite(weight.up, name, folder));
  if (!weight.scales.empty() && weight.scales.bytes() <= most_bytes)
    INK_TRY(check_finite(weight.scales, fmt::format("{}.scale", name), folder));
  INK_TRY(check_finite(weight.scale2, fmt::format("{}.scale2", name), folder));
  INK_TRY(check_finite(weight.scale2_up, fmt::format("{}.scale2 of up rows", name), folder));
  return check_finite(weight.input_amax, fmt::format("{}.input_amax", name), folder);
}

MatrixBank bank_of(const TensorView& data, const Weight& weight) {
  if (data.type != ScalarType::kU8) return MatrixBank::of(data);
  MatrixBank bank;
  bank.data = data.data;
  bank.type = ScalarType::kU8;
  bank.banks = data.shape[0];
  bank.rows = data.shape[1];
  bank.columns = 2 * data.shape[2];
  bank.row_stride_bytes = data.shape[2];
  bank.bank_stride_bytes = bank.rows * bank.row_stride_bytes;
  bank.scales = weight.scales.as<std::uint8_t>();
  bank.scale_row_stride_bytes = weight.scales.shape[2];
  bank.scale_bank_stride_bytes = bank.rows * bank.scale_row_stride_bytes;
  bank.scale2 = weight.scale2.as<float>();
  bank.input_amax = weight.input_amax.as<BFloat16>();
  return bank;
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& folder) {
  auto contents = std::make_unique<Contents>();
  contents->folder = folder;
  contents->config = INK_TRY(parse_model_config(INK_TRY(read_text_file(folder + "/config.json"))));
  contents->shards = INK_TRY(open_shards(folder));
  const auto quant = INK_TRY(read_quant_config(folder));
  contents->assembly =
      INK_TRY(assemble(contents->config, contents->shards, {folder, quant ? &*quant : nullptr}));
  for (const Shard& shard : contents->shards)
    for (const StoredTensor& tensor : shard.tensors)
      contents->tensor_bytes += static_cast<std::int64_t>(tensor.end - tensor.begin);
  Checkpoint checkpoint(std::move(contents));
  const bool small = checkpoint.tensor_bytes() <= kSmallCheckpointBytes;
  INK_TRY(checkpoint.verify_values(small ? INT64_MAX : kSmallTensorBytes));
  return checkpoint;
}

Checkpoint::Checkpoint(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

const ModelConfig& Checkpoint::config() const { return contents_->config; }
bool Checkpoint::has_mtp() const { return contents_->assembly.has_mtp; }
bool Checkpoint::has_vision() const { return contents_->assembly.has_vision; }
bool Checkpoint::has_audio() const { return contents_->assembly.has_audio; }
std::int64_t Checkpoint::tensor_bytes() const { return contents_->tensor_bytes; }

std::vector<Checkpoint::File> Checkpoint::files() const {
  std::vector<File> all;
  for (const Shard& shard : contents_->shards)
    all.push_back({contents_->folder + "/" + shard.file, shard.mapping.bytes()});
  return all;
}

Status Checkpoint::verify_values(std::int64_t most_bytes) const {
  for (const auto& [name, weight] : contents_->assembly.weights)
    INK_TRY(check_weight(weight, name, contents_->folder, most_bytes));
  return {};
}

TensorView Checkpoint::tensor(std::string_view native_name) const {
  const Weight& weight = contents_->weight(native_name);
  INK_CHECK(weight.up.empty(), "gate and up are stored apart: ask gated()");
  return weight.data;
}

MatrixBank Checkpoint::matrix(std::string_view native_name) const {
  const Weight& weight = contents_->weight(native_name);
  INK_CHECK(!is_gated(weight.role), "rows of gate and up have no common order: ask gated()");
  return bank_of(weight.data, weight);
}

GatedMatrix Checkpoint::gated(std::string_view native_name) const {
  const Weight& weight = contents_->weight(native_name);
  INK_CHECK(is_gated(weight.role), native_name);
  if (!weight.up.empty()) return {bank_of(weight.data, weight), bank_of(weight.up, weight)};
  const MatrixBank bank = bank_of(weight.data, weight);
  const std::int64_t half = bank.rows / 2;
  GatedMatrix pair = weight.halves ? GatedMatrix{bank.slice_rows(0, half), bank.slice_rows(half, half)}
                                   : GatedMatrix{bank.every(2, 0), bank.every(2, 1)};
  if (!weight.scale2_up.empty()) pair.up.scale2 = weight.scale2_up.as<float>();
  return pair;
}

}  // namespace inkstone::checkpoint
