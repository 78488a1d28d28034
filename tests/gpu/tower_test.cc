// SPDX-License-Identifier: Apache-2.0
// Both towers on the device against the same weights in f32.
#include "tests/gpu/towers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

#include "tests/gpu/subject.h"

namespace inkstone::gpu {
namespace {

// Three roundings to BF16 a stage (product, norm, GELU), each 2^-9 of a value, through three stages; seen in
// units of the largest value.
constexpr double kTowerTolerance = 3e-2;

double worst_difference(const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(actual[i])) return INFINITY;
    worst = std::max(worst, std::abs(static_cast<double>(actual[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return worst / largest;
}

class Towers : public OnDevice {
 protected:
  void expect_near(const char* name, const std::vector<float>& actual, const std::vector<float>& expected) {
    const double difference = worst_difference(actual, expected);
    std::printf("  %s tower: worst %.2e of the largest value\n", name, difference);
    EXPECT_LE(difference, kTowerTolerance) << name;
  }
  std::mt19937 random_{4};
};

TEST_F(Towers, VisionIsWithinBf16) {
  const std::int64_t values = 10 * 10 * 3;  // a patch of the mini
  std::normal_distribution<float> normal;
  std::vector<float> patches(static_cast<std::size_t>(19 * values));
  // Both sides read the same numbers.
  for (float& value : patches) value = to_float(to_bfloat16(normal(random_)));
  expect_near("vision", vision_vectors(subject(), patches), vision_vectors(exact(), patches));
}

TEST_F(Towers, AudioIsWithinBf16) {
  const checkpoint::AudioConfig& config = *exact().config().audio;
  std::vector<std::int32_t> levels(static_cast<std::size_t>(19 * config.mel_bins));
  for (std::int32_t& level : levels)
    level = static_cast<std::int32_t>(random_() % static_cast<std::uint32_t>(config.mel_levels));
  expect_near("audio", audio_vectors(subject(), levels), audio_vectors(exact(), levels));
}

}  // namespace
}  // namespace inkstone::gpu
