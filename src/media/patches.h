// SPDX-License-Identifier: Apache-2.0
// media/patches.h - a picture to the patches that the vision tower reads (`multimodal.md` 2.4).
#pragma once

#include <array>
#include <vector>

#include "base/thread_pool.h"
#include "media/rgb_image.h"
#include "tensor/tensor_view.h"

namespace inkstone::media {

struct PatchGrid {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  [[nodiscard]] std::int64_t num_patches() const { return rows * columns; }
};

// Rows are rounded up; columns are one more than fit whole, also when the picture ends at a patch border.
PatchGrid patch_grid(ImageSize size, std::int64_t patch_size);

struct PatchRule {
  std::int64_t patch_size = 40;
  std::array<float, 3> mean = {0.48145466F, 0.4578275F, 0.40821073F};
  std::array<float, 3> deviation = {0.26862954F, 0.26130258F, 0.27577711F};
};

// Order of the pixels inside a patch. `sides` empty: row by row. Otherwise the sides of the squares that the
// tower's stages join, first stage first (their product is the patch size): the pixels of a first square
// follow each other, then the next square of the same second square, and so on. Every stage then reads
// consecutive rows of the stage before it, and needs no gathering.
struct PatchLayout {
  std::vector<std::int64_t> sides;
  ScalarType type = ScalarType::kF32;  // or kBF16, rounded from f32
};

// Fills `out` [num_patches, patch_size^2 * 3], contiguous, in host memory, patches row by row, channel
// fastest. Value = (raw - 255 mean) / (255 deviation), f32, with raw -1 outside the picture. Both time frames
// of a still picture are equal, so one is stored.
void cut_patches(const RgbImage& image, const PatchRule& rule, const PatchLayout& layout, ThreadPool& pool,
                 const TensorView& out);

}  // namespace inkstone::media
