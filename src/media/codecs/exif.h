// SPDX-License-Identifier: Apache-2.0
// media/codecs/exif.h - the orientation that a camera wrote, and turning a picture by it.
#pragma once

#include <cstddef>
#include <span>

#include "media/rgb_image.h"

namespace inkstone::media {

// `exif`: a TIFF block, with or without the "Exif\0\0" in front of it. 1 (upright) when there is none in it.
int orientation_of(std::span<const std::byte> exif);

// The picture as it should be seen; orientation 1 to 8.
RgbImage upright(RgbImage image, int orientation);

}  // namespace inkstone::media
