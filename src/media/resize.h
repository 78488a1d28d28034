// SPDX-License-Identifier: Apache-2.0
// media/resize.h - the size a picture is brought to before it is cut, and Pillow's LANCZOS filter, bit for
// bit
// (`multimodal.md` 2.3).
#pragma once

#include <optional>

#include "base/result.h"
#include "base/thread_pool.h"
#include "media/rgb_image.h"

namespace inkstone::media {

// Both sides grow by `fraction`, but the longer one not beyond `max_upscaled_long_edge` by growing. A picture
// that is longer already keeps its size.
struct RescaleRule {
  std::optional<double> fraction = 2.0;                       // none: pictures keep their size
  std::optional<std::int64_t> max_upscaled_long_edge = 2048;  // none: no bound
};

// kInvalidArgument unless the fraction is finite and positive, and a bound goes with a fraction above 1.
Status check(const RescaleRule& rule);

// The rule must have passed `check`. kTooLarge when a side would exceed 2^20.
Result<ImageSize> rescaled_size(ImageSize size, const RescaleRule& rule);

// Two passes, along rows first, in fixed point with 22 bits, rounded to 8 bits after each. Rows are spread
// over the pool; the pixels do not depend on it. Both sizes at least 1 x 1.
RgbImage resize_lanczos(const RgbImage& image, ImageSize target, ThreadPool& pool);

}  // namespace inkstone::media
