// SPDX-License-Identifier: Apache-2.0
#include "app/media_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "app/input.h"
#include "media/preprocessor.h"
#include "model/towers.h"

namespace inkstone::app {
namespace {

// Rows that a tower takes at a time: bounds its memory, never its result.
constexpr std::int64_t kTowerRows = 256;

Result<media::ProcessorConfig> read_rules(const LoadedModel& model) {
  const checkpoint::ModelConfig& config = model.config();
  media::TowerInputs towers;
  if (config.vision) towers.patch_size = config.vision->patch_size;
  if (config.audio)
    towers.audio = {config.audio->mel_bins, media::DmelGrid{config.audio->mel_levels, config.audio->dmel_min,
                                                            config.audio->dmel_max}};
  const std::string path = model.folder + "/processor_config.json";
  std::error_code ignored;
  std::string text;
  if (std::filesystem::exists(path, ignored)) text = INK_TRY(read_file(path, "file"));
  return media::parse_processor_config(text, towers);
}

// The tower's rows for prepared media, copied back to the host as f32.
template <class Tower>
Result<std::vector<float>> run_tower(const Tower& tower, const TensorView& prepared, std::int64_t width,
                                     ops::Backend& backend) {
  const std::unique_ptr<ops::Stream> stream = backend.make_stream();
  TensorView input(nullptr, prepared.type, prepared.shape);
  TensorView output(nullptr, backend.activation_type(), {prepared.rows(), width});
  const ops::Buffer input_memory = INK_TRY(backend.allocate(input.bytes()));
  const ops::Buffer output_memory = INK_TRY(backend.allocate(output.bytes()));
  const ops::Buffer scratch = INK_TRY(backend.allocate(tower.workspace_bytes()));
  input.data = input_memory.get();
  output.data = output_memory.get();
  backend.upload(input.data, prepared.data, input.bytes(), *stream);
  model::Workspace workspace(scratch.get(), tower.workspace_bytes());
  tower.run(input, output, workspace, *stream);

  std::vector<float> vectors(static_cast<std::size_t>(output.shape.num_elements()));
  std::vector<BFloat16> halves(output.type == ScalarType::kBF16 ? vectors.size() : 0);
  void* host = halves.empty() ? static_cast<void*>(vectors.data()) : halves.data();
  backend.download(host, output.data, output.bytes(), *stream);
  stream->wait();
  std::transform(halves.begin(), halves.end(), vectors.begin(), [](BFloat16 half) { return to_float(half); });
  return vectors;
}

}  // namespace

struct MediaReader::Parts {
  const LoadedModel& model;
  std::optional<model::VisionTower> vision;
  std::optional<model::AudioTower> audio;
  std::optional<media::Preprocessor> prepare;
  ThreadPool pool{0};

  Status create_towers() {
    const checkpoint::ModelConfig& config = model.config();
    ops::Backend& backend = *model.backend;
    if (config.vision && model.weights.vision)
      vision =
          INK_TRY(model::VisionTower::create(*config.vision, *model.weights.vision, backend, kTowerRows));
    if (config.audio && model.weights.audio)
      audio = INK_TRY(model::AudioTower::create(*config.audio, *model.weights.audio, backend, kTowerRows));
    return {};
  }

  Result<media::MediaItem> prepare_file(const std::string& contents, chat::MediaKind kind) {
    const auto bytes = std::as_bytes(std::span(contents));
    return kind == chat::MediaKind::kImage ? prepare->image(bytes, pool) : prepare->audio(bytes, pool);
  }

  Result<ReadMedium> embed(const media::MediaItem& item, chat::MediaKind kind) {
    const std::int64_t width = model.config().width;
    std::vector<float> vectors =
        INK_TRY(kind == chat::MediaKind::kImage ? run_tower(*vision, item.tensor, width, *model.backend)
                                                : run_tower(*audio, item.tensor, width, *model.backend));
    ReadMedium medium;
    medium.kind = kind;
    medium.slots = {item.num_slots, item.content_hash};
    medium.vectors = std::make_shared<const std::vector<float>>(std::move(vectors));
    return medium;
  }
};

MediaReader::MediaReader(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
MediaReader::MediaReader(MediaReader&&) noexcept = default;
MediaReader::~MediaReader() = default;

Result<MediaReader> MediaReader::create(const LoadedModel& model) {
  auto parts = std::unique_ptr<Parts>(new Parts{model, {}, {}, {}});
  INK_TRY(parts->create_towers());
  media::PreprocessorOptions options;
  options.layout.type = model.backend->activation_type();
  if (parts->vision) options.layout.sides = parts->vision->patch_sides();
  parts->prepare.emplace(INK_TRY(read_rules(model)), options);
  return MediaReader(std::move(parts));
}

Result<ReadMedium> MediaReader::read(const std::string& path, chat::MediaKind kind, const std::string& what) {
  const bool taken = kind == chat::MediaKind::kImage ? parts_->vision.has_value() : parts_->audio.has_value();
  if (!taken)
    return fail(ErrorKind::kUnsupported,
                fmt::format("{}: the checkpoint {} has no tower for it", what, parts_->model.folder));
  const std::string contents = INK_TRY(read_file(path, what));
  const Result<media::MediaItem> item = parts_->prepare_file(contents, kind);
  if (!item) return fail(item.error().kind, fmt::format("{} {}: {}", what, path, item.error().message));
  return parts_->embed(*item, kind);
}

std::vector<engine::MediaItem> media_items(const chat::EncodedPrompt& prompt,
                                           std::span<const ReadMedium> media) {
  std::vector<engine::MediaItem> items;
  for (const chat::MediaSpan& span : prompt.media) {
    engine::MediaItem& item = items.emplace_back();
    item.begin = span.first_slot;
    item.rows = span.num_slots;
    item.content = {span.content_hash[0], span.content_hash[1]};
    item.vectors = media[span.media_idx].vectors;
  }
  return items;
}

}  // namespace inkstone::app
