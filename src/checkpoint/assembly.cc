// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/files/problems.h"
#include "checkpoint/vision_plan.h"

namespace inkstone::checkpoint {
namespace {

// A file whose header has an odd length puts all its tensors at odd addresses. Small ones are moved to where
// they can be read; copying large ones would break the promise that nothing is copied.
constexpr std::int64_t kMaxMovedBytes = std::int64_t{1} << 20;

struct Located {
  const Shard* shard = nullptr;
  const StoredTensor* tensor = nullptr;
  StoredPart part = StoredPart::kWhole;
  bool used = false;
};

std::string key_of(const NativeName& native) {
  if (native.part == StoredPart::kGate) return native.name + "/gate";
  if (native.part == StoredPart::kUp) return native.name + "/up";
  return native.name;
}

bool fits(const Shape& actual, const Shape& expected) {
  if (actual.rank() != expected.rank()) return false;
  for (int axis = 0; axis < actual.rank(); ++axis)
    if (expected[axis] != ExpectedTensor::kAnySize && actual[axis] != expected[axis]) return false;
  return true;
}

std::string shown(const Shape& expected) {
  std::string text = to_string(expected);
  for (std::size_t at; (at = text.find("-1")) != std::string::npos;) text.replace(at, 2, "any");
  return text;
}

Shape with_last(const Shape& shape, std::int64_t size) { return {shape[0], shape[1], size}; }

class Assembler {
 public:
  Assembler(ModelConfig& config, const std::vector<Shard>& shards, const AssemblyRules& rules)
      : config_(config), shards_(shards), rules_(rules) {}

  Result<Assembly> run() {
    locate();
    settle_groups();
    settle_dense_layers();
    INK_TRY(check_widths());
    for (const ExpectedTensor& expected : expected_tensors(config_)) take(expected);
    check_rest();
    if (!plain_experts_.empty())
      log::warning(
          fmt::format("{}: hf_quant_config.json does not exclude {}, which are BF16: the types decide",
                      rules_.folder, first_few(plain_experts_)));
    if (problems_.empty() && config_.vision) check_vision();
    INK_TRY(problems_.finish(rules_.folder));
    return std::move(result_);
  }

 private:
  void locate() {
    for (const Shard& shard : shards_)
      for (const StoredTensor& tensor : shard.tensors) {
        const NativeName native = native_name(tensor.name);
        const auto [place, inserted] =
            located_.emplace(key_of(native), Located{&shard, &tensor, native.part, false});
        if (!inserted)
          problems_.add(fmt::format("tensors {} and {} are the same weight under two names",
                                    place->second.tensor->name, tensor.name));
      }
  }

  [[nodiscard]] bool any_with_prefix(std::string_view prefix) const {
    const auto first = located_.lower_bound(prefix);
    return first != located_.end() && first->first.starts_with(prefix);
  }

  // Heads and towers may be absent as a whole, and may be there although the configuration does not use them.
  bool settle_group(std::string_view prefix, bool configured) {
    const bool stored = any_with_prefix(prefix);
    if (stored && !configured) {
      log::warning(
          fmt::format("{}: config.json does not use the tensors {}*: ignored", rules_.folder, prefix));
      for (auto& [key, located] : located_)
        if (key.starts_with(prefix)) located.used = true;
    }
    return stored && configured;
  }

  void settle_groups() {
    result_.has_mtp = settle_group("model.mtp.", config_.num_mtp() > 0);
    result_.has_vision = settle_group("model.visual.", config_.vision.has_value());
    result_.has_audio = settle_group("model.audio.", config_.audio.has_value());
    if (!result_.has_mtp) config_.mtp_is_sliding.clear();
    if (!result_.has_vision) config_.vision.reset();
    if (!result_.has_audio) config_.audio.reset();
  }

  [[nodiscard]] const StoredTensor* stored(const std::string& key) const {
    const auto found = located_.find(key);
    return found == located_.end() ? nullptr : found->second.tensor;
  }

  // Where the tensors form leading dense layers and then mixtures, they decide how many of each there are.
  void settle_dense_layers() {
    std::int64_t dense = 0;
    for (std::int64_t layer = 0; layer < config_.num_layers(); ++layer) {
      const bool is_dense = stored(fmt::format("model.llm.layers.{}.mlp.w2_md.weight", layer)) != nullptr;
      const bool is_mixture = stored(fmt::format("model.llm.layers.{}.mlp.gate.weight", layer)) != nullptr;
      if (is_dense == is_mixture || (is_dense && dense != layer)) return;
      if (is_dense) ++dense;
    }
    if (dense == config_.dense_layers) return;
    log::warning(fmt::format("{}: config.json counts {} dense layers, the tensors {}: the tensors decide",
                             rules_.folder, config_.dense_layers, dense));
    config_.dense_layers = dense;
  }

  Status check_width(const std::string& name, std::int64_t configured, std::string_view keys) {
    const StoredTensor* tensor = stored(name);
    if (tensor == nullptr || tensor->shape.rank() == 0) return {};
    const std::int64_t columns = tensor->shape[tensor->shape.rank() - 1];
    const std::int64_t width = tensor->type == ScalarType::kU8 ? 2 * columns : columns;
    if (width == configured) return {};
    return fail(ErrorKind::kCorrupt, fmt::format("{}: config.json ({}) says width {}, tensor {} has {}",
                                                 rules_.folder, keys, configured, tensor->name, width));
  }

  // Before all shapes: one wrong number of the configuration would misshape half of the tensors.
  Status check_widths() {
    for (std::int64_t layer = 0; layer < config_.num_layers(); ++layer) {
      const std::string prefix = fmt::format("model.llm.layers.{}.mlp.", layer);
      INK_TRY(check_width(prefix + "w2_md.weight", config_.dense_width,
                          "dense_intermediate_size or intermediate_size"));
      INK_TRY(check_width(prefix + "experts.w2_weight", config_.expert_width,
                          "moe_intermediate_size or intermediate_size"));
    }
    return {};
  }

  void take(const ExpectedTensor& expected) {
    if (expected.role == TensorRole::kGated && stored(expected.name) == nullptr &&
        (stored(expected.name + "/gate") != nullptr || stored(expected.name + "/up") != nullptr))
      return take_pair(expected);
    Located* located = use(expected.name);
    if (located == nullptr) return;
    Weight weight;
    weight.role = expected.role;
    weight.halves = located->part == StoredPart::kHalves;
    if (located->tensor->type == ScalarType::kU8 && may_be_quantised(expected.role)) {
      if (!take_quantised(expected, *located, weight)) return;
    } else {
      const bool router = expected.role == TensorRole::kRouter;
      const bool wide = expected.role == TensorRole::kConv && located->tensor->type == ScalarType::kF32;
      const auto view =
          wide ? narrowed(*located, expected.shape)
               : checked(*located, router ? ScalarType::kF32 : ScalarType::kBF16, expected.shape);
      if (!view) return;
      weight.data = *view;
    }
    if (may_be_quantised(expected.role) && rules_.quant != nullptr)
      compare_exclusion(expected.name, *located->tensor, weight.data.type == ScalarType::kU8);
    result_.weights.emplace(expected.name, weight);
  }

  // The list may use the native or the stored names.
  void compare_exclusion(const std::string& name, const StoredTensor& tensor, bool quantised) {
    const bool excluded = rules_.quant->excludes(name) || rules_.quant->excludes(tensor.name);
    if (quantised && excluded)
      problems_.add(fmt::format("tensor {} is NVFP4, hf_quant_config.json excludes it", tensor.name));
    if (!quantised && !excluded) plain_experts_.push_back(tensor.name);
  }

  void take_pair(const ExpectedTensor& expected) {
    Located* gate = use(expected.name + "/gate");
    Located* up = use(expected.name + "/up");
    if (gate == nullptr || up == nullptr) return;
    const Shape& whole = expected.shape;
    const Shape half =
        whole.rank() == 2 ? Shape{whole[0] / 2, whole[1]} : Shape{whole[0], whole[1] / 2, whole[2]};
    const auto gate_view = checked(*gate, ScalarType::kBF16, half);
    const auto up_view = checked(*up, ScalarType::kBF16, half);
    if (!gate_view || !up_view) return;
    Weight weight;
    weight.role = expected.role;
    weight.data = *gate_view;
    weight.up = *up_view;
    result_.weights.emplace(expected.name, weight);
  }

  bool take_quantised(const ExpectedTensor& expected, Located& located, Weight& weight) {
    const Shape& shape = expected.shape;
    if (shape[2] % 16 != 0) {
      problems_.add(fmt::format("tensor {} is NVFP4 but its rows of {} weights are no multiple of 16",
                                located.tensor->name, shape[2]));
      return false;
    }
    const auto data = checked(located, ScalarType::kU8, with_last(shape, shape[2] / 2));
    const auto scales =
        companion(expected.name + ".scale", ScalarType::kF8E4M3, with_last(shape, shape[2] / 16));
    const bool compressed = stored(expected.name + ".weight_global_scale") != nullptr;
    const bool complete = compressed ? take_divisors(expected, weight) : take_factors(expected, weight);
    if (!data || !scales || !complete) return false;
    weight.data = *data;
    weight.scales = *scales;
    return true;
  }

  // The vendor's companions (`spec/checkpoint.md` 5.2).
  bool take_factors(const ExpectedTensor& expected, Weight& weight) {
    const auto scale2 = companion(expected.name + ".scale2", ScalarType::kF32, {expected.shape[0]});
    const auto amax = companion(expected.name + ".input_amax", ScalarType::kBF16, {1});
    const auto unpacked = companion(expected.name + ".original_shape", ScalarType::kI64, {3});
    if (!scale2 || !amax || !unpacked) return false;
    if (!rules_.headers_only) check_original_shape(expected, *unpacked);
    weight.scale2 = *scale2;
    weight.input_amax = *amax;
    return true;
  }

  // compressed-tensors: global scale = 448 * 6 / amax, a divisor, one per expert or one each for its gate and
  // up rows. The input's may be absent (weight-only exports); one s_in serves all experts, so the largest
  // amax counts.
  bool take_divisors(const ExpectedTensor& expected, Weight& weight) {
    const std::string key = expected.name + ".weight_global_scale";
    const std::int64_t experts = expected.shape[0];
    const Shape& shape = stored(key)->shape;
    const bool apart = shape.rank() == 2 && shape[1] == 2 && is_gated(expected.role);
    const bool column = shape.rank() == 2 && shape[1] == 1;
    const auto divisors = companion(key, ScalarType::kF32,
                                    apart    ? Shape{experts, 2}
                                    : column ? Shape{experts, 1}
                                             : Shape{experts});
    if (!divisors) return false;
    if (!rules_.headers_only) weight.scale2 = reciprocals(*divisors, 0);
    if (!rules_.headers_only && apart) weight.scale2_up = reciprocals(*divisors, 1);
    return take_input_divisors(expected, weight);
  }

  bool take_input_divisors(const ExpectedTensor& expected, Weight& weight) {
    const std::string key = expected.name + ".input_global_scale";
    if (stored(key) == nullptr) return true;
    const auto divisors = companion(key, ScalarType::kF32, stored(key)->shape);
    if (!divisors || divisors->shape.num_elements() == 0) return false;
    if (rules_.headers_only) return true;
    const auto* values = divisors->as<float>();
    const float least = *std::min_element(values, values + divisors->shape.num_elements());
    auto* amax = reinterpret_cast<BFloat16*>(allocate(sizeof(BFloat16)));
    *amax = to_bfloat16(448.0F * 6.0F / least);
    weight.input_amax = TensorView(amax, ScalarType::kBF16, {1});
    return true;
  }

  // 1 / column `index` of divisors [E] or [E, n].
  TensorView reciprocals(const TensorView& divisors, std::int64_t index) {
    const std::int64_t count = divisors.shape[0];
    auto* factors = reinterpret_cast<float*>(allocate(static_cast<std::size_t>(count) * sizeof(float)));
    for (std::int64_t i = 0; i < count; ++i) factors[i] = 1.0F / divisors.row<float>(i)[index];
    return TensorView(factors, ScalarType::kF32, {count});
  }

  std::byte* allocate(std::size_t bytes) {
    auto& block = result_.owned.emplace_back(bytes / sizeof(std::max_align_t) + 1);
    return reinterpret_cast<std::byte*>(block.data());
  }

  std::optional<TensorView> companion(const std::string& name, ScalarType type, const Shape& shape) {
    Located* located = use(name);
    return located == nullptr ? std::nullopt : checked(*located, type, shape);
  }

  void check_original_shape(const ExpectedTensor& expected, const TensorView& unpacked) {
    const auto* sizes = unpacked.as<std::int64_t>();
    const Shape claimed{sizes[0], sizes[1], sizes[2]};
    if (!(claimed == expected.shape))
      problems_.add(fmt::format("tensor {}.original_shape says {}, expected {}", expected.name,
                                to_string(claimed), to_string(expected.shape)));
  }

  Located* use(const std::string& key) {
    const auto found = located_.find(key);
    if (found == located_.end()) {
      problems_.add(fmt::format("tensor {} is missing", key));
      return nullptr;
    }
    found->second.used = true;
    return &found->second;
  }

  std::optional<TensorView> checked(const Located& located, ScalarType type, const Shape& shape) {
    const StoredTensor& tensor = *located.tensor;
    const bool right_type = tensor.type == type;
    const bool right_shape = fits(tensor.shape, shape);
    if (!right_type)
      problems_.add(fmt::format("tensor {} is {}, expected {}", tensor.name, tensor.dtype, name(type)));
    if (!right_shape)
      problems_.add(fmt::format("tensor {} has shape {}, expected {}", tensor.name, to_string(tensor.shape),
                                shown(shape)));
    if (!right_type || !right_shape) return std::nullopt;
    return view(located);
  }

  // BF16 values that were saved as F32, back as they were; others would change in the conversion.
  std::optional<TensorView> narrowed(const Located& located, const Shape& shape) {
    const auto wide = checked(located, ScalarType::kF32, shape);
    if (!wide || rules_.headers_only) return wide;
    const std::int64_t count = wide->shape.num_elements();
    auto* narrow = reinterpret_cast<BFloat16*>(allocate(static_cast<std::size_t>(count) * sizeof(BFloat16)));
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = wide->as<float>()[i];
      narrow[i] = to_bfloat16(value);
      if (value == value && to_float(narrow[i]) != value) {
        problems_.add(
            fmt::format("tensor {} is F32 and holds {}, which BF16 cannot", located.tensor->name, value));
        return std::nullopt;
      }
    }
    return TensorView(narrow, ScalarType::kBF16, wide->shape);
  }

  std::optional<TensorView> view(const Located& located) {
    const StoredTensor& tensor = *located.tensor;
    // Nothing writes through a view of a weight; the mapping would refuse it.
    auto* data = const_cast<std::byte*>(located.shard->mapping.bytes().data() + tensor.begin);
    const auto align = static_cast<std::uintptr_t>(size_bytes(*tensor.type));
    if (reinterpret_cast<std::uintptr_t>(data) % align != 0) {
      const std::uint64_t bytes = tensor.end - tensor.begin;
      if (bytes > kMaxMovedBytes) {
        problems_.add(
            fmt::format("tensor {} of {} begins at an address that is no multiple of {}: save {} again "
                        "with an aligned header",
                        tensor.name, located.shard->file, align, located.shard->file));
        return std::nullopt;
      }
      auto* moved = allocate(bytes);
      std::memcpy(moved, data, bytes);
      data = moved;
    }
    return TensorView(data, *tensor.type, tensor.shape);
  }

  // Under our prefixes an unexpected tensor means that the file is of another model; elsewhere it is not
  // ours.
  void check_rest() {
    std::vector<std::string> foreign;
    for (const auto& [key, located] : located_) {
      if (located.used) continue;
      if (key.starts_with("model.") || key.starts_with("lm_head"))
        problems_.add(fmt::format("tensor {} is not part of the model", located.tensor->name));
      else
        foreign.push_back(located.tensor->name);
    }
    if (!foreign.empty())
      log::warning(fmt::format("{}: unknown tensors ignored: {}", rules_.folder, first_few(foreign)));
  }

  void check_vision() {
    std::vector<Shape> linear;
    for (std::int64_t i = 0; i < config_.vision->layers; ++i)
      linear.push_back(
          result_.weights.find(fmt::format("model.visual.layers.linear_{}.weight", i))->second.data.shape);
    if (auto plan = plan_vision_folds(*config_.vision, linear); !plan) problems_.add(plan.error().message);
    for (std::int64_t i = 0; i + 1 < config_.vision->layers; ++i) {
      const std::string name = fmt::format("model.visual.layers.norm_{}.weight", i);
      const Shape& norm = result_.weights.find(name)->second.data.shape;
      const std::int64_t rows = linear[static_cast<std::size_t>(i)][0];
      if (norm[0] != rows)
        problems_.add(fmt::format("tensor {} has shape {}, expected [{}]", name, to_string(norm), rows));
    }
  }

  ModelConfig& config_;
  const std::vector<Shard>& shards_;
  AssemblyRules rules_;
  std::map<std::string, Located, std::less<>> located_;
  Problems problems_;
  std::vector<std::string> plain_experts_;  // BF16 although the list of exclusions lacks them
  Assembly result_;
};

}  // namespace

Result<Assembly> assemble(ModelConfig& config, const std::vector<Shard>& shards, const AssemblyRules& rules) {
  return Assembler(config, shards, rules).run();
}

}  // namespace inkstone::checkpoint
