// SPDX-License-Identifier: Apache-2.0
// Pixels are compared with Pillow's by tests/media and by the goldens; here the rule, and what must not
// matter.
#include "media/resize.h"

#include <gtest/gtest.h>

#include "media/patches.h"
#include "media/resize_taps.h"
#include "tests/support/media_files.h"

namespace inkstone::media {
namespace {

ImageSize rescaled(ImageSize size, const RescaleRule& rule = {}) { return rescaled_size(size, rule).value(); }

// The table of `multimodal.md` 2.4: picture, resized, rows, columns.
TEST(Resize, SizesAndGridsAreThoseOfTheServingEngines) {
  struct Row {
    ImageSize from;
    ImageSize to;
    std::int64_t rows;
    std::int64_t columns;
  };
  const Row table[] = {
      {{1, 1}, {2, 2}, 1, 1},
      {{40, 40}, {80, 80}, 2, 3},
      {{64, 48}, {128, 96}, 3, 4},
      {{100, 50}, {200, 100}, 3, 6},
      {{333, 500}, {666, 1000}, 25, 17},
      {{640, 480}, {1280, 960}, 24, 33},
      {{1000, 333}, {2000, 666}, 17, 51},
      {{1024, 1024}, {2048, 2048}, 52, 52},
      {{1333, 777}, {2048, 1194}, 30, 52},
      {{1920, 1080}, {2048, 1152}, 29, 52},
      {{2048, 2048}, {2048, 2048}, 52, 52},
      {{4000, 40}, {4000, 40}, 1, 101},
      {{4032, 3024}, {4032, 3024}, 76, 101},
      {{1, 4000}, {1, 4000}, 100, 1},
  };
  for (const Row& row : table) {
    EXPECT_EQ(rescaled(row.from), row.to) << row.from.width << "x" << row.from.height;
    EXPECT_EQ(patch_grid(row.to, 40).rows, row.rows);
    EXPECT_EQ(patch_grid(row.to, 40).columns, row.columns);
  }
}

TEST(Resize, HalvesAreRoundedUp) {
  EXPECT_EQ(rescaled({10, 5}, {0.5, std::nullopt}), (ImageSize{5, 3}));  // 2.5; to even would be 2
  EXPECT_EQ(rescaled({10, 1}, {0.01, std::nullopt}), (ImageSize{1, 1}));
}

TEST(Resize, RulesAreChecked) {
  EXPECT_FALSE(check(RescaleRule{0.0, std::nullopt}));
  EXPECT_FALSE(check(RescaleRule{-1.0, std::nullopt}));
  EXPECT_FALSE(check(RescaleRule{std::numeric_limits<double>::infinity(), std::nullopt}));
  EXPECT_FALSE(check(RescaleRule{2.0, 0}));
  EXPECT_FALSE(check(RescaleRule{0.5, 2048}));  // a bound on enlarging without enlarging
  EXPECT_TRUE(check(RescaleRule{}));
  EXPECT_TRUE(check(RescaleRule{std::nullopt, std::nullopt}));
  EXPECT_FALSE(rescaled_size({100, 100}, {1e300, std::nullopt}));
}

TEST(Resize, NoFractionKeepsTheSize) {
  EXPECT_EQ(rescaled({640, 480}, {std::nullopt, 2048}), (ImageSize{640, 480}));
}

TEST(Resize, WeightsOfEveryPixelAddUpToOne) {
  for (const auto& [in, out] : {std::pair{10, 20}, {41, 39}, {1, 7}, {4000, 3}, {5, 5}}) {
    const ResizeTaps taps = lanczos_taps(in, out);
    for (std::int64_t i = 0; i < out; ++i) {
      std::int64_t sum = 0;
      for (std::int64_t t = 0; t < taps.count[static_cast<std::size_t>(i)]; ++t) sum += taps.row(i)[t];
      EXPECT_NEAR(static_cast<double>(sum), 1 << 22, static_cast<double>(taps.stride)) << in << " " << out;
    }
  }
}

TEST(Resize, FlatPicturesStayFlat) {
  RgbImage image(ImageSize{13, 9});
  std::fill_n(image.row(0), 9 * image.row_bytes(), std::uint8_t{77});
  ThreadPool pool(1);
  const RgbImage resized = resize_lanczos(image, {40, 31}, pool);
  for (const std::uint8_t value : resized.pixels()) ASSERT_EQ(value, 77);
}

TEST(Resize, ThreadsDoNotChangeThePixels) {
  const RgbImage image = testing::patterned({211, 190});
  ThreadPool one(1);
  ThreadPool three(3);
  for (const ImageSize target : {ImageSize{422, 380}, ImageSize{100, 380}, ImageSize{211, 33}})
    EXPECT_EQ(resize_lanczos(image, target, one).pixels(), resize_lanczos(image, target, three).pixels());
}

}  // namespace
}  // namespace inkstone::media
