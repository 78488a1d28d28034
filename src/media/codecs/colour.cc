// SPDX-License-Identifier: Apache-2.0
#include "media/codecs/colour.h"

#include <algorithm>

namespace inkstone::media {

void grey_to_rgb(const std::uint8_t* grey, std::int64_t pixels, std::uint8_t* rgb) {
  for (std::int64_t i = 0; i < pixels; ++i) std::fill_n(rgb + 3 * i, 3, grey[i]);
}

void rgba_to_rgb(const std::uint8_t* rgba, std::int64_t pixels, AlphaRule rule, std::uint8_t* rgb) {
  for (std::int64_t i = 0; i < pixels; ++i) {
    for (int c = 0; c < 3; ++c) rgb[3 * i + c] = flattened(rgba[4 * i + c], rgba[4 * i + 3], rule);
  }
}

void inverted_cmyk_to_rgb(const std::uint8_t* cmyk, std::int64_t pixels, std::uint8_t* rgb) {
  for (std::int64_t i = 0; i < pixels; ++i) {
    const int light = cmyk[4 * i + 3];  // 255 - black
    for (int c = 0; c < 3; ++c) {
      const int ink = 255 - cmyk[4 * i + c];
      rgb[3 * i + c] = static_cast<std::uint8_t>(std::clamp(light - scaled(ink, light), 0, 255));
    }
  }
}

}  // namespace inkstone::media
