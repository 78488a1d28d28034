// SPDX-License-Identifier: Apache-2.0
#include "media/patches.h"

#include <gtest/gtest.h>

#include "tests/support/media_files.h"

namespace inkstone::media {
namespace {

template <class T>
std::vector<T> cut(const RgbImage& image, const PatchRule& rule, const PatchLayout& layout) {
  const std::int64_t patches = patch_grid(image.size(), rule.patch_size).num_patches();
  const std::int64_t values = rule.patch_size * rule.patch_size * 3;
  std::vector<T> out(static_cast<std::size_t>(patches * values));
  ThreadPool pool(2);
  cut_patches(image, rule, layout, pool, TensorView(out.data(), layout.type, {patches, values}));
  return out;
}

// Values of `multimodal.md` 2.4.
TEST(Patches, PaddingIsMinusOneBeforeScaling) {
  const RgbImage black(ImageSize{40, 40});  // one patch, and a second of padding only
  const std::vector<float> patches = cut<float>(black, {}, {});
  ASSERT_EQ(patches.size(), 2U * 4800);
  const float pixel[3] = {-1.792263F, -1.752097F, -1.480220F};
  const float padding[3] = {-1.806861F, -1.767105F, -1.494440F};
  for (std::size_t i = 0; i < 4800; ++i) {
    ASSERT_NEAR(patches[i], pixel[i % 3], 1e-6);
    ASSERT_NEAR(patches[4800 + i], padding[i % 3], 1e-6);
  }
}

TEST(Patches, Bf16IsTheRoundedValue) {
  RgbImage image(ImageSize{1, 1});
  std::fill_n(image.row(0), 3, std::uint8_t{128});
  const std::vector<BFloat16> patches = cut<BFloat16>(image, {}, {{}, ScalarType::kBF16});
  EXPECT_EQ(to_float(patches[0]), 0.076171875F);
  EXPECT_EQ(to_float(patches[1]), 0.1689453125F);
  EXPECT_EQ(to_float(patches[2]), 0.33984375F);
  EXPECT_EQ(to_float(patches[3]), -1.8046875F);  // padding
}

TEST(Patches, PatchesAreCutRowByRow) {
  const RgbImage image = testing::patterned({25, 12});
  const PatchRule rule{10, {0, 0, 0}, {1.0F / 255, 1.0F / 255, 1.0F / 255}};  // values are the raw ones
  const std::vector<float> patches = cut<float>(image, rule, {});
  const PatchGrid grid = patch_grid(image.size(), 10);
  EXPECT_EQ(grid.rows, 2);
  EXPECT_EQ(grid.columns, 3);
  for (std::int64_t y = 0; y < 20; ++y) {
    for (std::int64_t x = 0; x < 30; ++x) {
      const std::int64_t patch = y / 10 * grid.columns + x / 10;
      const float value = patches[static_cast<std::size_t>(patch * 300 + (y % 10 * 10 + x % 10) * 3 + 1)];
      const float expected = x < 25 && y < 12 ? image.row(y)[3 * x + 1] : -1.0F;
      ASSERT_NEAR(value, expected, 1e-4) << x << " " << y;
    }
  }
}

// The real tower folds 5 x 5, 2 x 2, 4 x 4: pixel (x, y) belongs to cell (x / 5, y / 5) of the first stage,
// that to (x / 10, y / 10) of the second.
TEST(Patches, NestedOrderIsWhatTheStagesRead) {
  const RgbImage image = testing::patterned({40, 40});
  const std::vector<float> plain = cut<float>(image, {}, {});
  const std::vector<float> nested = cut<float>(image, {}, {{5, 2, 4}, ScalarType::kF32});
  for (std::int64_t y = 0; y < 40; ++y) {
    for (std::int64_t x = 0; x < 40; ++x) {
      const std::int64_t third = y / 10 * 4 + x / 10;
      const std::int64_t second = y / 5 % 2 * 2 + x / 5 % 2;
      const std::int64_t first = y % 5 * 5 + x % 5;
      const std::int64_t at = ((third * 4 + second) * 25 + first) * 3;
      for (std::int64_t c = 0; c < 3; ++c)
        ASSERT_EQ(nested[static_cast<std::size_t>(at + c)],
                  plain[static_cast<std::size_t>((y * 40 + x) * 3 + c)]);
    }
  }
}

}  // namespace
}  // namespace inkstone::media
