// SPDX-License-Identifier: Apache-2.0
#include "media/processor_config.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace inkstone::media {
namespace {

using Json = nlohmann::json;

constexpr int kPillowLanczos = 1;  // the value of "resample"

tl::unexpected<Error> refuse(const std::string& path, std::string_view problem) {
  return invalid(fmt::format("processor_config.json: {} {}", path, problem));
}

// One object of the file; an absent one is empty.
class Section {
 public:
  Section(const Json& file, std::string name)
      : name_(std::move(name)), json_(file.contains(name_) ? file[name_] : Json::object()) {}

  [[nodiscard]] std::string path(const char* key) const { return name_ + "." + key; }
  [[nodiscard]] bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  [[nodiscard]] bool is_null(const char* key) const { return json_.contains(key) && json_[key].is_null(); }
  [[nodiscard]] const Json& at(const char* key) const { return json_[key]; }
  [[nodiscard]] Status check() const {
    if (!json_.is_object()) return refuse(name_, "is not an object");
    return {};
  }

  [[nodiscard]] Result<double> number(const char* key, double absent) const {
    if (!has(key)) return absent;
    if (!at(key).is_number()) return refuse(path(key), "is not a number");
    return at(key).get<double>();
  }
  [[nodiscard]] Result<std::int64_t> size(const char* key, std::int64_t absent) const {
    const double value = INK_TRY(number(key, static_cast<double>(absent)));
    if (value < 1 || value > 1e9 || value != std::floor(value)) return refuse(path(key), "is not a size");
    return static_cast<std::int64_t>(value);
  }
  [[nodiscard]] Status expect_text(const char* key, std::string_view expected) const {
    if (!has(key) || at(key) == expected) return {};
    return refuse(path(key), fmt::format("is {}; only {} is known", at(key).dump(), expected));
  }
  // Three numbers, or what is there already.
  [[nodiscard]] Status triple(const char* key, std::array<float, 3>& values) const {
    if (!has(key)) return {};
    if (!at(key).is_array() || at(key).size() != 3)
      return refuse(path(key), "is not a list of three numbers");
    for (std::size_t c = 0; c < 3; ++c) {
      if (!at(key)[c].is_number()) return refuse(path(key), "is not a list of three numbers");
      values[c] = at(key)[c].get<float>();
    }
    return {};
  }

 private:
  std::string name_;
  Json json_;
};

// A size that the tower knows too must be the same.
Status expect_same(const std::string& path, double value, double tower) {
  if (value == tower) return {};
  return refuse(path, fmt::format("is {} but config.json says {}", value, tower));
}

Result<RescaleRule> read_rescale(const Section& image) {
  RescaleRule rule;
  if (image.is_null("rescale_image_frac")) {
    rule.fraction.reset();
  } else {
    rule.fraction = INK_TRY(image.number("rescale_image_frac", *rule.fraction));
  }
  const bool enlarges = !rule.fraction || *rule.fraction > 1;
  if (image.is_null("rescale_image_max_upscaled_long_edge") ||
      (!enlarges && !image.has("rescale_image_max_upscaled_long_edge"))) {
    rule.max_upscaled_long_edge.reset();
  } else {
    rule.max_upscaled_long_edge =
        INK_TRY(image.size("rescale_image_max_upscaled_long_edge", *rule.max_upscaled_long_edge));
  }
  INK_TRY(check(rule));
  return rule;
}

Result<ImageRule> read_image(const Section& image, std::int64_t patch_size) {
  INK_TRY(image.check());
  INK_TRY(image.expect_text("image_processor_type", "InklingImageProcessor"));
  if (image.has("resample") && image.at("resample") != kPillowLanczos)
    return refuse(image.path("resample"), "is not 1 (LANCZOS), the only filter known");
  ImageRule rule;
  rule.patches.patch_size = patch_size;
  if (image.has("size")) {
    const Json& size = image.at("size");
    for (const char* side : {"height", "width"}) {
      if (!size.is_object() || !size.contains(side) || !size[side].is_number())
        return refuse(image.path("size"), "has no height or no width");
      INK_TRY(expect_same(image.path("size"), size[side].get<double>(), static_cast<double>(patch_size)));
    }
  }
  INK_TRY(image.triple("image_mean", rule.patches.mean));
  INK_TRY(image.triple("image_std", rule.patches.deviation));
  for (const float deviation : rule.patches.deviation) {
    if (!(deviation > 0)) return refuse(image.path("image_std"), "is not positive");
  }
  rule.rescale = INK_TRY(read_rescale(image));
  return rule;
}

Result<MelRule> read_mel(const Section& audio, std::int64_t bins) {
  MelRule rule;
  rule.bins = INK_TRY(audio.size("feature_size", bins));
  INK_TRY(expect_same(audio.path("feature_size"), static_cast<double>(rule.bins), static_cast<double>(bins)));
  rule.rate = INK_TRY(audio.size("sampling_rate", rule.rate));
  const double hop = static_cast<double>(rule.rate) * INK_TRY(audio.number("audio_token_duration_s", 0.05));
  const double window = hop * INK_TRY(audio.number("window_size_multiplier", 2.0));
  // The window is a few hops; the bound keeps a slip of the pen from becoming an allocation.
  if (!(hop >= 1) || !(window >= hop) || window > 1e6)
    return refuse(audio.path("audio_token_duration_s"), "and window_size_multiplier give no usable window");
  rule.hop = std::llround(hop);
  rule.window = std::llround(window);
  if (rule.window % 2 != 0) return refuse(audio.path("window_size_multiplier"), "gives an odd window");
  return rule;
}

Result<DmelGrid> read_grid(const Section& audio, const std::optional<DmelGrid>& tower) {
  const std::array<const char*, 3> keys = {"num_dmel_bins", "dmel_min_value", "dmel_max_value"};
  for (const char* key : keys) {
    if (!tower && !audio.has(key))
      return refuse(audio.path(key), "is missing, and config.json has no grid either");
  }
  const DmelGrid known = tower.value_or(DmelGrid{});
  DmelGrid grid;
  grid.levels = INK_TRY(audio.size(keys[0], known.levels));
  grid.min = INK_TRY(audio.number(keys[1], known.min));
  grid.max = INK_TRY(audio.number(keys[2], known.max));
  if (tower) {
    INK_TRY(expect_same(audio.path(keys[0]), static_cast<double>(grid.levels),
                        static_cast<double>(tower->levels)));
    INK_TRY(expect_same(audio.path(keys[1]), grid.min, tower->min));
    INK_TRY(expect_same(audio.path(keys[2]), grid.max, tower->max));
  }
  if (grid.levels < 2 || !(grid.min < grid.max))
    return refuse(audio.path(keys[0]), "and its bounds span no grid");
  return grid;
}

Result<AudioRule> read_audio(const Section& audio, const TowerInputs::Audio& tower) {
  INK_TRY(audio.check());
  INK_TRY(audio.expect_text("feature_extractor_type", "InklingFeatureExtractor"));
  const MelRule mel = INK_TRY(read_mel(audio, tower.mel_bins));
  const DmelGrid grid = INK_TRY(read_grid(audio, tower.grid));
  return AudioRule{mel, grid};
}

}  // namespace

Result<ProcessorConfig> parse_processor_config(std::string_view json_text, const TowerInputs& towers) {
  const Json file = json_text.empty() ? Json::object() : Json::parse(json_text, nullptr, false);
  if (!file.is_object()) return fail(ErrorKind::kCorrupt, "processor_config.json is not a JSON object");
  if (file.contains("processor_class") && file["processor_class"] != "InklingProcessor")
    return refuse("processor_class",
                  fmt::format("is {}; only InklingProcessor is known", file["processor_class"].dump()));
  ProcessorConfig config;
  if (towers.patch_size)
    config.image = INK_TRY(read_image(Section(file, "image_processor"), *towers.patch_size));
  if (towers.audio) config.audio = INK_TRY(read_audio(Section(file, "feature_extractor"), *towers.audio));
  return config;
}

}  // namespace inkstone::media
