// SPDX-License-Identifier: Apache-2.0
#include "tests/support/synthetic_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "checkpoint/expected_tensors.h"
#include "checkpoint/quant_config.h"
#include "tests/support/editable_checkpoint.h"

namespace inkstone::test_support {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::TensorToWrite;

// splitmix64: the same bytes on every system, which standard distributions do not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  // Sum of four uniforms of 16 bits each, scaled to variance 1: near enough to normal, bounded, and one draw.
  double normal() {
    const std::uint64_t z = bits();
    const std::uint64_t sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    return (static_cast<double>(sum) * 0x1p-16 - 2) * std::sqrt(3.0);
  }

 private:
  std::uint64_t state_;
};

std::uint64_t seed_of(std::string_view name, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325U ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

bool has(std::string_view name, std::string_view part) { return name.find(part) != std::string_view::npos; }

// Mean and spread that keep activations near 1 through many layers.
struct Spread {
  double mean = 0;
  double deviation = 0;
};

Spread spread_of(const TensorToWrite& tensor) {
  const std::string& name = tensor.name;
  if (has(name, "global_scale")) return {1, 0.1};
  if (has(name, "gate.bias")) return {0, 0.05};
  if (has(name, "norm")) return {1, 0.2};
  if (has(name, "sconv")) return {0, 0.2};
  if (has(name, "rel_logits_proj")) return {0, 0.5};
  if (has(name, ".embed.weight") || has(name, "audio.encoder")) return {0, 1};
  return {0, 1 / std::sqrt(static_cast<double>(tensor.shape[tensor.shape.rank() - 1]))};
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Elements made at a time: a bank of experts may be larger than the memory.
constexpr std::int64_t kPieceElements = 1 << 20;

std::vector<std::byte> random_floats(const TensorToWrite& tensor, std::size_t count, Random& random) {
  const Spread spread = spread_of(tensor);
  std::vector<float> wide(count);
  for (float& value : wide) value = static_cast<float>(spread.mean + spread.deviation * random.normal());
  if (tensor.type == ScalarType::kF32) return bytes_of(wide);
  std::vector<std::uint16_t> narrow(count);
  std::transform(wide.begin(), wide.end(), narrow.begin(),
                 [](float value) { return to_bfloat16(value).bits; });
  return bytes_of(narrow);
}

// NVFP4 parts: any code, block scales 2 to 15, and a second factor that brings the product (root mean square
// of the codes about 3) to the spread of a plain matrix.
std::vector<std::byte> random_codes(const TensorToWrite& tensor, std::size_t count, Random& random) {
  std::vector<std::uint8_t> codes(count);
  const bool scales = tensor.type == ScalarType::kF8E4M3;
  for (std::uint8_t& code : codes)
    code = static_cast<std::uint8_t>(scales ? 0x40 + random.bits() % 0x18 : random.bits() & 0xff);
  return bytes_of(codes);
}

class Payload {
 public:
  Payload(const SyntheticModel& model, std::uint64_t seed) : seed_(seed) {
    for (const ExpectedTensor& tensor : checkpoint::expected_tensors(model.config))
      unpacked_[tensor.name] = tensor.shape;
  }

  Status write(const TensorToWrite& tensor, checkpoint::SafetensorsWriter& writer) const {
    Random random(seed_of(tensor.name, seed_));
    if (tensor.name.ends_with(".original_shape")) return writer.write(tensor.name, 0, original_shape(tensor));
    if (tensor.name.ends_with(".input_amax"))
      return writer.write(tensor.name, 0, bytes_of(std::vector<std::uint16_t>{to_bfloat16(8).bits}));
    if (tensor.name.ends_with(".scale2")) return writer.write(tensor.name, 0, scale2(tensor, random));
    const bool codes = tensor.type == ScalarType::kU8 || tensor.type == ScalarType::kF8E4M3;
    const std::int64_t elements = tensor.shape.num_elements();
    for (std::int64_t begin = 0; begin < elements; begin += kPieceElements) {
      const auto count = static_cast<std::size_t>(std::min(kPieceElements, elements - begin));
      const auto offset = static_cast<std::uint64_t>(begin * size_bytes(tensor.type));
      INK_TRY(
          writer.write(tensor.name, offset,
                       codes ? random_codes(tensor, count, random) : random_floats(tensor, count, random)));
    }
    return {};
  }

 private:
  [[nodiscard]] const Shape& bank_of(const TensorToWrite& companion) const {
    return unpacked_.at(companion.name.substr(0, companion.name.rfind('.')));
  }
  [[nodiscard]] std::vector<std::byte> original_shape(const TensorToWrite& tensor) const {
    const Shape& shape = bank_of(tensor);
    return bytes_of(std::vector<std::int64_t>{shape[0], shape[1], shape[2]});
  }
  std::vector<std::byte> scale2(const TensorToWrite& tensor, Random& random) const {
    const double typical = 1 / std::sqrt(static_cast<double>(bank_of(tensor)[2])) / (3 * 6);
    std::vector<float> factors(static_cast<std::size_t>(tensor.shape[0]));
    for (float& factor : factors) factor = static_cast<float>(typical * (0.8 + 0.4 * random.uniform()));
    return bytes_of(factors);
  }

  std::uint64_t seed_;
  std::map<std::string, Shape> unpacked_;
};

// The quantised banks: all mixtures but the first.
bool quantised(const ExpectedTensor& tensor, const checkpoint::ModelConfig& config) {
  return checkpoint::may_be_quantised(tensor.role) &&
         !tensor.name.starts_with(fmt::format("model.llm.layers.{}.", config.dense_layers));
}

void add_quantised(const ExpectedTensor& bank, std::vector<TensorToWrite>& tensors) {
  const Shape& shape = bank.shape;
  tensors.push_back({bank.name, ScalarType::kU8, {shape[0], shape[1], shape[2] / 2}});
  tensors.push_back({bank.name + ".scale", ScalarType::kF8E4M3, {shape[0], shape[1], shape[2] / 16}});
  tensors.push_back({bank.name + ".scale2", ScalarType::kF32, {shape[0]}});
  tensors.push_back({bank.name + ".input_amax", ScalarType::kBF16, {1}});
  tensors.push_back({bank.name + ".original_shape", ScalarType::kI64, {3}});
}

// The shapes that only the vision tower's own weights know.
Shape settled(const ExpectedTensor& tensor, const std::vector<Shape>& vision_linear) {
  if (tensor.group != checkpoint::TensorGroup::kVision || has(tensor.name, "final_norm")) return tensor.shape;
  const std::size_t stage = std::stoul(tensor.name.substr(tensor.name.rfind('_') + 1));
  const Shape& linear = vision_linear[stage];
  return has(tensor.name, "norm") ? Shape{linear[0]} : linear;
}

using Files = std::map<std::string, std::vector<TensorToWrite>>;

Files distribute(const std::vector<TensorToWrite>& tensors, int shards) {
  std::uint64_t total = 0;
  for (const TensorToWrite& tensor : tensors)
    if (!tensor.name.starts_with("model.mtp.")) total += tensor.bytes();
  Files files;
  std::uint64_t before = 0;
  for (const TensorToWrite& tensor : tensors) {
    if (tensor.name.starts_with("model.mtp.")) {
      files["mtp.safetensors"].push_back(tensor);
      continue;
    }
    const auto shard = static_cast<int>(before / (total / static_cast<std::uint64_t>(shards) + 1));
    files[fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards)].push_back(tensor);
    before += tensor.bytes();
  }
  return files;
}

Status write_file(const std::string& path, const std::vector<TensorToWrite>& tensors, const Payload& payload,
                  bool sparse) {
  auto writer = INK_TRY(checkpoint::SafetensorsWriter::create(path, tensors));
  for (const TensorToWrite& tensor : tensors)
    if (!sparse || tensor.name.ends_with(".original_shape")) INK_TRY(payload.write(tensor, writer));
  return {};  // without close(): nothing here must survive a power failure, and waiting for the disk takes
              // long
}

}  // namespace

std::vector<TensorToWrite> synthetic_tensors(const SyntheticModel& model, Precision precision) {
  std::vector<TensorToWrite> tensors;
  for (const ExpectedTensor& expected : checkpoint::expected_tensors(model.config)) {
    const bool router = expected.role == checkpoint::TensorRole::kRouter;
    if (precision == Precision::kNvfp4 && quantised(expected, model.config))
      add_quantised(expected, tensors);
    else
      tensors.push_back({expected.name, router ? ScalarType::kF32 : ScalarType::kBF16,
                         settled(expected, model.vision_linear)});
  }
  return tensors;
}

Status write_synthetic(const SyntheticModel& model, const SyntheticOptions& options,
                       const std::string& folder) {
  std::filesystem::create_directories(folder);
  write_bytes(folder + "/config.json", config_json(model.config));
  if (options.precision == Precision::kNvfp4)
    write_bytes(folder + "/hf_quant_config.json",
                checkpoint::write_quant_config(checkpoint::released_exclusions(model.config)));
  const Payload payload(model, options.seed);
  nlohmann::ordered_json index;
  std::uint64_t total = 0;
  for (const auto& [file, tensors] :
       distribute(synthetic_tensors(model, options.precision), options.shards)) {
    INK_TRY(write_file(folder + "/" + file, tensors, payload, options.sparse));
    for (const TensorToWrite& tensor : tensors) {
      index["weight_map"][tensor.name] = file;
      total += tensor.bytes();
    }
  }
  index["metadata"]["total_size"] = total;
  write_bytes(folder + "/model.safetensors.index.json", index.dump(1));
  return {};
}

}  // namespace inkstone::test_support
