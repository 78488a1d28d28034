// SPDX-License-Identifier: Apache-2.0
// Resampler, log-mel values and levels against the numbers of `multimodal.md` 3.2 to 3.4.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "media/dmel.h"
#include "media/log_mel.h"
#include "media/resampler.h"
#include "tests/support/media_files.h"

namespace inkstone::media {
namespace {

using inkstone::testing::sine;

TEST(Resampler, ReproducesASineFromEveryRate) {
  const std::vector<float> expected = sine(1000, 16000, 16000);
  for (const int rate : {8000, 11025, 12000, 22050, 24000, 32000, 44100, 48000, 88200, 96000}) {
    const std::vector<float> out =
        Resampler(rate, 16000).run(sine(1000, rate, static_cast<std::size_t>(rate)));
    ASSERT_EQ(out.size(), 16000U) << rate;
    double difference = 0;
    for (std::size_t i = 100; i < 15900; ++i)  // away from the ends, where the sine begins and stops
      difference = std::max(difference, std::fabs(static_cast<double>(out[i]) - expected[i]));
    // The definition's own ripple at 11,025 Hz is 1.0120e-3 of the amplitude (evaluated apart, in NumPy).
    EXPECT_LT(difference, (rate == 11025 ? 1.013e-3 : 1e-3) * 0.5) << rate;
  }
}

TEST(Resampler, LengthIsRoundedUp) {
  EXPECT_EQ(Resampler(44100, 16000).run(std::vector<float>(1)).size(), 1U);
  EXPECT_EQ(Resampler(44100, 16000).run(std::vector<float>(441)).size(), 160U);
  EXPECT_EQ(Resampler(44100, 16000).run(std::vector<float>(442)).size(), 161U);
  EXPECT_EQ(Resampler(8000, 16000).run(std::vector<float>(5)).size(), 10U);
  EXPECT_TRUE(Resampler(8000, 16000).run({}).empty());
}

TEST(Resampler, EqualRatesKeepTheSamples) {
  const std::vector<float> samples = sine(440, 16000, 100);
  EXPECT_EQ(Resampler(16000, 16000).run(samples), samples);
}

TEST(Resampler, FiltersAreKept) {
  ResamplerCache cache(16000);
  const auto first = cache.at(44100);
  EXPECT_EQ(cache.at(44100), first);
  for (int rate = 20000; rate < 20020; ++rate) EXPECT_NE(cache.at(rate), nullptr);
  EXPECT_NE(cache.at(44100), first);  // made anew, the old one is still valid
  EXPECT_EQ(first->run(std::vector<float>(441)).size(), 160U);
}

std::vector<std::int32_t> levels_of(const std::vector<float>& log_mel) {
  std::vector<std::int32_t> levels(log_mel.size());
  quantise(log_mel, {}, levels);
  return levels;
}

TEST(LogMel, EveryFilterHasUnitArea) {
  const LogMel log_mel{MelRule{}};
  const std::vector<float> filters = log_mel.filters();
  ASSERT_EQ(filters.size(), 80U * 801);
  for (std::size_t m = 0; m < 80; ++m) {
    const double sum = std::accumulate(filters.begin() + static_cast<std::ptrdiff_t>(m * 801),
                                       filters.begin() + static_cast<std::ptrdiff_t>((m + 1) * 801), 0.0);
    EXPECT_GE(sum, 0.09945) << m;
    EXPECT_LE(sum, 0.10125) << m;
  }
  // The first triangle spans 0 to 74.478 Hz, bins are 10 Hz apart.
  EXPECT_EQ(filters[0], 0.0F);
  EXPECT_GT(filters[7], 0.0F);
  EXPECT_EQ(filters[8], 0.0F);
}

TEST(LogMel, FramesAreRoundedUp) {
  const LogMel log_mel{MelRule{}};
  EXPECT_EQ(log_mel.num_frames(1), 1);
  EXPECT_EQ(log_mel.num_frames(799), 1);
  EXPECT_EQ(log_mel.num_frames(800), 1);
  EXPECT_EQ(log_mel.num_frames(801), 2);
  EXPECT_EQ(log_mel.num_frames(93680), 118);
  EXPECT_EQ(log_mel.num_frames(960000), 1200);
}

TEST(LogMel, SilenceIsLevelTwo) {
  ThreadPool pool(1);
  const std::vector<float> values = LogMel{MelRule{}}.run(std::vector<float>(1601), pool);
  ASSERT_EQ(values.size(), 3U * 80);
  for (const float value : values) {
    EXPECT_GE(value, -6.0024F);
    EXPECT_LE(value, -5.9947F);
  }
  EXPECT_EQ(levels_of(values), std::vector<std::int32_t>(240, 2));
}

TEST(LogMel, AToneOfAThousandHertzHasTheKnownLevels) {
  ThreadPool pool(2);
  const std::vector<float> values = LogMel{MelRule{}}.run(sine(1000, 16000, 1600), pool);
  const std::vector<std::int32_t> levels = levels_of(values);
  ASSERT_EQ(levels.size(), 160U);
  std::vector<std::int32_t> second(80, 2);
  second[25] = 12;
  second[26] = 13;
  second[27] = 11;
  EXPECT_EQ(std::vector<std::int32_t>(levels.begin() + 80, levels.end()), second);
  EXPECT_NEAR(values[80 + 25], 0.2851, 1e-4);
  EXPECT_NEAR(values[80 + 26], 0.9167, 1e-4);
  EXPECT_NEAR(values[80 + 27], -0.5598, 1e-4);
  for (std::size_t m = 0; m < 16; ++m) EXPECT_EQ(levels[m], 10) << m;
  EXPECT_EQ(std::vector<std::int32_t>(levels.begin() + 24, levels.begin() + 30),
            (std::vector<std::int32_t>{12, 13, 13, 12, 11, 11}));
  for (std::size_t m = 60; m < 80; ++m) EXPECT_EQ(levels[m], 8) << m;
}

TEST(LogMel, ThreadsDoNotChangeTheValues) {
  ThreadPool one(1);
  ThreadPool three(3);
  const LogMel log_mel{MelRule{}};
  const std::vector<float> samples = sine(333, 16000, 50000);
  EXPECT_EQ(log_mel.run(samples, one), log_mel.run(samples, three));
}

TEST(Dmel, BordersThatAFloatCanHitGoAsTheRuleSays) {
  EXPECT_EQ(dmel_level(-5.5F, {}), 2);
  EXPECT_EQ(dmel_level(-2.5F, {}), 7);
  EXPECT_EQ(dmel_level(0.5F, {}), 13);
}

TEST(Dmel, IsTheNearestOfAllLevels) {
  const DmelGrid grid;
  for (int i = -90000; i < 40000; i += 7) {
    const float value = static_cast<float>(i) * 1e-4F;
    const double v = std::clamp(static_cast<double>(value), -7.0, 2.0);
    std::int32_t best = 0;
    for (std::int32_t level = 1; level < 16; ++level) {
      if (std::fabs(v - (-7 + 0.6 * level)) < std::fabs(v - (-7 + 0.6 * best))) best = level;
    }
    ASSERT_EQ(dmel_level(value, grid), best) << value;
  }
}

}  // namespace
}  // namespace inkstone::media
