// SPDX-License-Identifier: Apache-2.0
// media/audio_decode.h - an encoded sound (WAV, FLAC, OGG, MP3) to one channel of floats
// (`multimodal.md` 3.2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace inkstone::media {

struct AudioLimits {
  std::int64_t max_encoded_bytes = std::int64_t{64} << 20;
  double max_seconds = 600;                          // 12,000 tokens of 50 ms
  std::int64_t max_frames = std::int64_t{64} << 20;  // samples of one channel, at the file's rate
  std::int64_t min_rate = 1000;                      // samples a second
  std::int64_t max_rate = 768000;
};

struct Sound {
  std::int64_t rate = 0;       // samples a second
  std::vector<float> samples;  // full scale is [-1, 1]; float files may exceed it
};

// The container is found by content. Channels are averaged. Rate and length are checked against the header
// before the samples are decoded; where a header understates the length, decoding stops at the limit.
// A WAV whose data chunk claims more than the file holds ends with the file; a cut MP3 yields its whole
// frames; a cut FLAC or OGG is an error. Errors: kUnsupported (another container or codec), kTooLarge,
// kCorrupt (damaged, no samples, samples that are not numbers). Thread-safe.
Result<Sound> decode_audio(std::span<const std::byte> encoded, const AudioLimits& limits = {});

}  // namespace inkstone::media
