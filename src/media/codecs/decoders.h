// SPDX-License-Identifier: Apache-2.0
// media/codecs/decoders.h - one decoder per picture format. Each reads the size, asks for it to be accepted,
// and only then takes memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/result.h"
#include "media/image_decode.h"

namespace inkstone::media {

using AcceptSize = std::function<Status(ImageSize)>;

struct CodecOptions {
  AlphaRule alpha = AlphaRule::kWhite;
  bool want_orientation = false;
  AcceptSize accept;
};

struct Decoded {
  RgbImage image;
  int orientation = 1;  // EXIF 1 to 8; 1 when not asked for or absent
};

// `encoded` begins with the format's signature. No exception and no long jump leaves these functions.
Result<Decoded> decode_png(std::span<const std::byte> encoded, const CodecOptions& options);
Result<Decoded> decode_jpeg(std::span<const std::byte> encoded, const CodecOptions& options);
Result<Decoded> decode_webp(std::span<const std::byte> encoded, const CodecOptions& options);
Result<Decoded> decode_gif(std::span<const std::byte> encoded, const CodecOptions& options);

}  // namespace inkstone::media
