// SPDX-License-Identifier: Apache-2.0
// media/preprocessor.h - encoded pictures and sounds to items for the prompt and the towers. Takes the bytes
// of one medium (fetched and un-base64ed by others); items go to chat::PromptEncoder (slots and hash) and to
// the engine (tensors).
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "base/thread_pool.h"
#include "media/audio_decode.h"
#include "media/image_decode.h"
#include "media/media_item.h"
#include "media/processor_config.h"
#include "media/resampler.h"

namespace inkstone::media {

struct PreprocessorOptions {
  bool apply_exif = false;
  AlphaRule alpha = AlphaRule::kWhite;
  ImageLimits image_limits;
  AudioLimits audio_limits;
  std::int64_t max_slots = 12000;  // of one medium; checked before its pixels or samples are decoded
  PatchLayout layout;              // what the vision tower wants: model::VisionTower::patch_sides()
};

// Thread-safe, except that a pool serves one call at a time.
class Preprocessor {
 public:
  Preprocessor(ProcessorConfig config, PreprocessorOptions options);

  [[nodiscard]] bool takes_images() const { return config_.image.has_value(); }
  [[nodiscard]] bool takes_audio() const { return config_.audio.has_value(); }
  [[nodiscard]] const ProcessorConfig& config() const { return config_; }

  // Errors: those of decoding; kUnsupported when the model has no tower for it; kTooLarge for too many slots.
  Result<MediaItem> image(std::span<const std::byte> encoded, ThreadPool& pool) const;
  // With a rule of the request instead of the checkpoint's (`mm_processor_kwargs`).
  Result<MediaItem> image(std::span<const std::byte> encoded, const RescaleRule& rescale,
                          ThreadPool& pool) const;
  Result<MediaItem> audio(std::span<const std::byte> encoded, ThreadPool& pool) const;

 private:
  ProcessorConfig config_;
  PreprocessorOptions options_;
  std::shared_ptr<const LogMel> log_mel_;       // with an audio tower
  std::shared_ptr<ResamplerCache> resamplers_;  // likewise
};

}  // namespace inkstone::media
