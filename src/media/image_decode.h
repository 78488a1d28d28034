// SPDX-License-Identifier: Apache-2.0
// media/image_decode.h - an encoded picture (PNG, JPEG, WebP, first frame of a GIF) to 8-bit RGB, as
// Pillow's `convert("RGB")` gives it (`multimodal.md` 2.2).
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "media/rgb_image.h"

namespace inkstone::media {

enum class AlphaRule {
  kWhite,  // transparent parts show a white page
  kDrop,   // the colour stored under transparent pixels, as the reference and SGLang have it
};

// `multimodal.md` 2.7. Checked against the headers, before memory for pixels is taken.
struct ImageLimits {
  std::int64_t max_encoded_bytes = std::int64_t{64} << 20;
  std::int64_t max_side = 8192;
  std::int64_t max_pixels = std::int64_t{16} << 20;
};

struct DecodeOptions {
  bool apply_exif = false;  // turn the picture as its EXIF orientation says
  AlphaRule alpha = AlphaRule::kWhite;
  ImageLimits limits;
  // A further condition on the size in the file, before it is turned; asked before memory is taken.
  std::function<Status(ImageSize)> accept_size;
};

// The format is decided by the content. No colour management, no gamma. 16-bit colours keep their high byte;
// 16-bit grey is clamped at 255, which is what Pillow does with it.
// Errors: kUnsupported (another format), kTooLarge (limits, with the counts), kCorrupt (damaged or cut short;
// names the format and the problem). Thread-safe.
Result<RgbImage> decode_image(std::span<const std::byte> encoded, const DecodeOptions& options);

}  // namespace inkstone::media
