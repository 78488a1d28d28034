// SPDX-License-Identifier: Apache-2.0
// tests/support/media_files.h - small pictures and sounds, encoded, for tests and as seeds of fuzzing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "media/rgb_image.h"

namespace inkstone::testing {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}
inline std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A picture in which neighbouring pixels differ, the same every time.
media::RgbImage patterned(media::ImageSize size);

Bytes png_of(const media::RgbImage& image);
// Any PNG whose header says so, with pixels of zeros for `rows` rows of `row_bytes` bytes.
Bytes raw_png(std::uint32_t width, std::uint32_t height, int depth, int colour, std::size_t rows,
              std::size_t row_bytes);
enum class JpegKind { kColour, kGrey, kCmyk };
// `orientation` 1 to 8 writes an EXIF block, 0 none.
Bytes jpeg_of(const media::RgbImage& image, JpegKind kind = JpegKind::kColour, bool progressive = false,
              int orientation = 0);
Bytes webp_of(const media::RgbImage& image, bool lossless);
// Red 5 x 3 pixels on a screen of 7 x 5, transparent colour 0 where `transparent`.
Bytes small_gif(bool transparent);

// PCM of 8, 16, 24 or 32 bits, or float (bits = -32), interleaved samples in [-1, 1).
Bytes wav_of(std::span<const float> samples, int channels, int rate, int bits);
enum class SoundKind { kFlac, kOgg, kMp3 };
// Empty where libsndfile was built without an encoder for it.
Bytes sound_of(std::span<const float> samples, int channels, int rate, SoundKind kind);
std::vector<float> sine(double hertz, int rate, std::size_t count, double amplitude = 0.5);

}  // namespace inkstone::testing
