// SPDX-License-Identifier: Apache-2.0
#include "media/preprocessor.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace inkstone::media {
namespace {

Status check_slots(std::int64_t slots, std::int64_t max_slots, std::string_view what) {
  if (slots <= max_slots) return {};
  return fail(ErrorKind::kTooLarge,
              fmt::format("{} takes {} tokens; at most {} are allowed", what, slots, max_slots));
}

// An item with memory for a tensor [slots, width] that is still to be written.
MediaItem make_item(ItemKind kind, ScalarType type, std::int64_t slots, std::int64_t width) {
  auto memory =
      std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(slots * width * size_bytes(type)));
  return {kind, slots, TensorView(memory.get(), type, {slots, width}), memory, {}};
}

// The resized pixels and the rule determine every patch; they are a tenth of the patches' size.
ContentHash hash_of(const RgbImage& image, const PatchRule& rule) {
  ContentHasher hasher;
  hasher.add_value(ItemKind::kImage);
  hasher.add_value(image.size());
  hasher.add_value(rule.patch_size);
  hasher.add_value(rule.mean);
  hasher.add_value(rule.deviation);
  hasher.add(std::as_bytes(std::span(image.pixels())));
  return hasher.digest();
}

ContentHash hash_of(const TensorView& levels) {
  ContentHasher hasher;
  hasher.add_value(ItemKind::kAudio);
  hasher.add_value(levels.rows());
  hasher.add_value(levels.row_elements());
  hasher.add({levels.data, static_cast<std::size_t>(levels.bytes())});
  return hasher.digest();
}

}  // namespace

Preprocessor::Preprocessor(ProcessorConfig config, PreprocessorOptions options)
    : config_(config), options_(std::move(options)) {
  if (!config_.audio) return;
  const MelRule& mel = config_.audio->mel;
  log_mel_ = std::make_shared<const LogMel>(mel);
  resamplers_ = std::make_shared<ResamplerCache>(mel.rate);
  const double seconds_per_slot = static_cast<double>(mel.hop) / static_cast<double>(mel.rate);
  AudioLimits& limits = options_.audio_limits;
  limits.max_seconds =
      std::min(limits.max_seconds, static_cast<double>(options_.max_slots) * seconds_per_slot);
}

Result<MediaItem> Preprocessor::image(std::span<const std::byte> encoded, ThreadPool& pool) const {
  return image(encoded, config_.image ? config_.image->rescale : RescaleRule{}, pool);
}

Result<MediaItem> Preprocessor::image(std::span<const std::byte> encoded, const RescaleRule& rescale,
                                      ThreadPool& pool) const try {
  if (!config_.image) return fail(ErrorKind::kUnsupported, "this model does not take pictures");
  INK_TRY(check(rescale));
  const PatchRule& rule = config_.image->patches;
  const auto accept = [&](ImageSize size) -> Status {
    const ImageSize target = INK_TRY(rescaled_size(size, rescale));
    return check_slots(patch_grid(target, rule.patch_size).num_patches(), options_.max_slots,
                       fmt::format("a picture of {} x {} pixels", size.width, size.height));
  };
  RgbImage image =
      INK_TRY(decode_image(encoded, {options_.apply_exif, options_.alpha, options_.image_limits, accept}));
  INK_TRY(accept(image.size()));  // turning a picture may change its grid
  const ImageSize target = INK_TRY(rescaled_size(image.size(), rescale));
  if (!(target == image.size())) image = resize_lanczos(image, target, pool);

  const std::int64_t slots = patch_grid(target, rule.patch_size).num_patches();
  MediaItem item =
      make_item(ItemKind::kImage, options_.layout.type, slots, rule.patch_size * rule.patch_size * 3);
  cut_patches(image, rule, options_.layout, pool, item.tensor);
  item.content_hash = hash_of(image, rule);
  return item;
} catch (const std::bad_alloc&) {
  return fail(ErrorKind::kUnavailable, "no memory for the picture");
}

Result<MediaItem> Preprocessor::audio(std::span<const std::byte> encoded, ThreadPool& pool) const try {
  if (!config_.audio) return fail(ErrorKind::kUnsupported, "this model does not take sounds");
  const Sound sound = INK_TRY(decode_audio(encoded, options_.audio_limits));
  const std::vector<float> samples = resamplers_->at(sound.rate)->run(sound.samples);
  const std::int64_t slots = log_mel_->num_frames(static_cast<std::int64_t>(samples.size()));
  INK_TRY(check_slots(slots, options_.max_slots, "a sound"));
  const std::vector<float> log_mel = log_mel_->run(samples, pool);
  MediaItem item = make_item(ItemKind::kAudio, ScalarType::kI32, slots, config_.audio->mel.bins);
  quantise(log_mel, config_.audio->grid, {item.tensor.as<std::int32_t>(), log_mel.size()});
  item.content_hash = hash_of(item.tensor);
  return item;
} catch (const std::bad_alloc&) {
  return fail(ErrorKind::kUnavailable, "no memory for the sound");
}

}  // namespace inkstone::media
