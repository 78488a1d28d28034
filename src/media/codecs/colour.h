// SPDX-License-Identifier: Apache-2.0
// media/codecs/colour.h - rows of other colour forms to RGB rows, with Pillow's rounding.
#pragma once

#include <cstdint>

#include "media/image_decode.h"

namespace inkstone::media {

// a * b / 255, rounded to nearest.
inline std::uint8_t scaled(int a, int b) {
  const int product = a * b + 128;
  return static_cast<std::uint8_t>(((product >> 8) + product) >> 8);
}

// One colour value under the alpha rule.
inline std::uint8_t flattened(int colour, int alpha, AlphaRule rule) {
  if (rule == AlphaRule::kDrop) return static_cast<std::uint8_t>(colour);
  const int sum = colour * alpha + 255 * (255 - alpha) + 128;
  return static_cast<std::uint8_t>(((sum >> 8) + sum) >> 8);
}

void grey_to_rgb(const std::uint8_t* grey, std::int64_t pixels, std::uint8_t* rgb);
void rgba_to_rgb(const std::uint8_t* rgba, std::int64_t pixels, AlphaRule rule, std::uint8_t* rgb);
// Inverted CMYK, as JPEG files store it (Adobe's habit): 255 is no ink.
void inverted_cmyk_to_rgb(const std::uint8_t* cmyk, std::int64_t pixels, std::uint8_t* rgb);

}  // namespace inkstone::media
