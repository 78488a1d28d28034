// SPDX-License-Identifier: Apache-2.0
#include "media/resize_taps.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace inkstone::media {
namespace {

constexpr double kLobes = 3.0;

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double lanczos(double x) { return x > -kLobes && x < kLobes ? sinc(x) * sinc(x / kLobes) : 0.0; }

// Nearest integer of w * 2^22, halves away from zero.
std::int32_t fixed(double weight) {
  const double value = weight * (1 << ResizeTaps::kFractionBits);
  return static_cast<std::int32_t>(value < 0 ? value - 0.5 : value + 0.5);
}

}  // namespace

ResizeTaps lanczos_taps(std::int64_t in, std::int64_t out) {
  const double ratio = static_cast<double>(in) / static_cast<double>(out);
  const double scale = std::max(ratio, 1.0);
  const double support = kLobes * scale;
  ResizeTaps taps;
  taps.stride = std::min(in, 2 * static_cast<std::int64_t>(std::ceil(support)) + 1);
  taps.weights.resize(static_cast<std::size_t>(out * taps.stride));
  std::vector<double> row(static_cast<std::size_t>(taps.stride));
  for (std::int64_t i = 0; i < out; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * ratio;
    const std::int64_t first =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - support + 0.5)));
    const std::int64_t end = std::min(in, static_cast<std::int64_t>(std::floor(centre + support + 0.5)));
    double sum = 0;
    for (std::int64_t t = first; t < end; ++t) {
      double& weight = row[static_cast<std::size_t>(t - first)];
      weight = lanczos((static_cast<double>(t) - centre + 0.5) / scale);
      sum += weight;
    }
    for (std::int64_t t = 0; t < end - first; ++t)
      taps.weights[static_cast<std::size_t>(i * taps.stride + t)] =
          fixed(row[static_cast<std::size_t>(t)] / sum);
    taps.first.push_back(first);
    taps.count.push_back(end - first);
  }
  return taps;
}

}  // namespace inkstone::media
