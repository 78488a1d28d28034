// SPDX-License-Identifier: Apache-2.0
#include "app/media_reader.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "app/input.h"
#include "model/towers.h"

namespace inkstone::app {
namespace {

// A modality is on where the configuration and the weights have it.
bool has_vision(const LoadedModel& model) { return model.config().vision && model.weights.vision; }
bool has_audio(const LoadedModel& model) { return model.config().audio && model.weights.audio; }

Result<media::ProcessorConfig> read_rules(const LoadedModel& model) {
  const checkpoint::ModelConfig& config = model.config();
  media::TowerInputs towers;
  if (has_vision(model)) towers.patch_size = config.vision->patch_size;
  if (has_audio(model))
    towers.audio = {config.audio->mel_bins, media::DmelGrid{config.audio->mel_levels, config.audio->dmel_min,
                                                            config.audio->dmel_max}};
  const std::string path = model.folder + "/processor_config.json";
  std::error_code ignored;
  std::string text;
  if (std::filesystem::exists(path, ignored)) text = INK_TRY(read_file(path, "file"));
  return media::parse_processor_config(text, towers);
}

engine::PreparedMedia prepared_of(const media::MediaItem& item) {
  engine::PreparedMedia prepared;
  prepared.kind =
      item.kind == media::ItemKind::kImage ? engine::MediaKind::kImage : engine::MediaKind::kAudio;
  prepared.rows = item.tensor;
  prepared.memory = item.memory;
  return prepared;
}

}  // namespace

Result<MediaReader> MediaReader::create(const LoadedModel& model, media::PreprocessorOptions options) {
  options.layout.type = model.backend->activation_type();
  if (has_vision(model))
    options.layout.sides = INK_TRY(model::patch_sides(*model.config().vision, *model.weights.vision));
  return MediaReader(media::Preprocessor(INK_TRY(read_rules(model)), std::move(options)));
}

Result<ReadMedium> MediaReader::prepare(std::span<const std::byte> encoded, chat::MediaKind kind,
                                        const std::optional<media::RescaleRule>& rescale,
                                        ThreadPool& pool) const {
  const bool image = kind == chat::MediaKind::kImage;
  const media::MediaItem item = INK_TRY(image && rescale ? prepare_.image(encoded, *rescale, pool)
                                        : image          ? prepare_.image(encoded, pool)
                                                         : prepare_.audio(encoded, pool));
  return ReadMedium{{item.num_slots, item.content_hash}, prepared_of(item)};
}

Result<ReadMedium> MediaReader::read(const std::string& path, chat::MediaKind kind, const std::string& what,
                                     ThreadPool& pool) const {
  const std::string contents = INK_TRY(read_file(path, what));
  Result<ReadMedium> medium = prepare(std::as_bytes(std::span(contents)), kind, {}, pool);
  if (!medium) medium.error().message = fmt::format("{} {}: {}", what, path, medium.error().message);
  return medium;
}

std::optional<media::RescaleRule> MediaReader::rescale_rule() const {
  if (!prepare_.takes_images()) return std::nullopt;
  return prepare_.config().image->rescale;
}

std::vector<engine::MediaItem> media_items(const chat::EncodedPrompt& prompt,
                                           std::span<const ReadMedium> media) {
  std::vector<engine::MediaItem> items;
  for (const chat::MediaSpan& span : prompt.media) {
    engine::MediaItem& item = items.emplace_back();
    item.begin = span.first_slot;
    item.rows = span.num_slots;
    item.content = {span.content_hash[0], span.content_hash[1]};
    item.prepared = media[span.media_idx].prepared;
  }
  return items;
}

}  // namespace inkstone::app
