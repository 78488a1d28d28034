// SPDX-License-Identifier: Apache-2.0
#include "media/log_mel.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <kissfft/kissfft.hh>
#include <numbers>

#include "base/check.h"

namespace inkstone::media {
namespace {

// Slaney's scale: linear to 1000 Hz, logarithmic above.
constexpr double kHertzPerMel = 200.0 / 3.0;
constexpr double kBreakMel = 15.0;
const double kLogStep = std::log(6.4) / 27.0;

double mel_of(double hertz) {
  return hertz < 1000.0 ? hertz / kHertzPerMel : kBreakMel + std::log(hertz / 1000.0) / kLogStep;
}

double hertz_of(double mel) {
  return mel < kBreakMel ? mel * kHertzPerMel : 1000.0 * std::exp((mel - kBreakMel) * kLogStep);
}

// Borders of the triangles: filter i rises from edge i to edge i + 1 and falls to edge i + 2.
std::vector<double> filter_edges(const MelRule& rule) {
  const double highest = mel_of(static_cast<double>(rule.rate) / 2);
  std::vector<double> edges;
  for (std::int64_t i = 0; i < rule.bins + 2; ++i)
    edges.push_back(hertz_of(highest * static_cast<double>(i) / static_cast<double>(rule.bins + 1)));
  return edges;
}

// Weight of a frequency in the triangle, which has area 1.
double triangle(double hertz, double low, double middle, double high) {
  const double rising = (hertz - low) / (middle - low);
  const double falling = (high - hertz) / (high - middle);
  return std::max(0.0, std::min(rising, falling)) * 2.0 / (high - low);
}

}  // namespace

struct LogMel::Transform {
  explicit Transform(std::int64_t size) : half(static_cast<std::size_t>(size / 2), false) {}
  kissfft<double> half;  // complex, over pairs of real samples
};

LogMel::LogMel(const MelRule& rule) : rule_(rule), transform_(std::make_unique<Transform>(rule.window)) {
  INK_CHECK(rule.window % 2 == 0 && rule.hop > 0 && rule.hop <= rule.window && rule.bins > 0);
  for (std::int64_t n = 0; n < rule.window; ++n) {
    const double turn = static_cast<double>(n) / static_cast<double>(rule.window);
    window_.push_back(0.5 - 0.5 * std::cos(2 * std::numbers::pi * turn));
  }
  const std::vector<double> edges = filter_edges(rule);
  const double spacing = static_cast<double>(rule.rate) / static_cast<double>(rule.window);
  for (std::size_t i = 0; i + 2 < edges.size(); ++i) {
    Filter filter;
    filter.first = static_cast<std::int64_t>(std::ceil(edges[i] / spacing));
    const auto last =
        std::min(rule.window / 2, static_cast<std::int64_t>(std::floor(edges[i + 2] / spacing)));
    for (std::int64_t bin = filter.first; bin <= last; ++bin)
      filter.weights.push_back(static_cast<float>(
          triangle(static_cast<double>(bin) * spacing, edges[i], edges[i + 1], edges[i + 2])));
    filters_.push_back(std::move(filter));
  }
}

LogMel::~LogMel() = default;

void LogMel::run_frame(const double* samples, float* out, std::vector<double>& scratch) const {
  const auto half = static_cast<std::size_t>(rule_.window / 2);
  scratch.resize(static_cast<std::size_t>(rule_.window) * 2 + half + 1);
  double* windowed = scratch.data();
  auto* spectrum = reinterpret_cast<std::complex<double>*>(windowed + rule_.window);
  double* magnitude = windowed + 2 * rule_.window;
  for (std::size_t n = 0; n < window_.size(); ++n) windowed[n] = samples[n] * window_[n];
  transform_->half.transform_real(windowed, spectrum);

  const auto size_of = [](double re, double im) { return std::sqrt(std::max(re * re + im * im, 1e-10)); };
  // The first entry holds the two bins without an imaginary part.
  magnitude[0] = size_of(spectrum[0].real(), 0);
  magnitude[half] = size_of(spectrum[0].imag(), 0);
  for (std::size_t k = 1; k < half; ++k) magnitude[k] = size_of(spectrum[k].real(), spectrum[k].imag());

  for (std::size_t m = 0; m < filters_.size(); ++m) {
    double sum = 0;
    const double* values = magnitude + filters_[m].first;
    for (std::size_t i = 0; i < filters_[m].weights.size(); ++i) sum += filters_[m].weights[i] * values[i];
    out[m] = static_cast<float>(std::log10(std::max(sum, 1e-10)));
  }
}

std::vector<float> LogMel::run(std::span<const float> samples, ThreadPool& pool) const {
  const std::int64_t frames = num_frames(static_cast<std::int64_t>(samples.size()));
  std::vector<double> padded(static_cast<std::size_t>(rule_.window - rule_.hop + frames * rule_.hop));
  std::copy(samples.begin(), samples.end(), padded.begin() + (rule_.window - rule_.hop));
  std::vector<float> out(static_cast<std::size_t>(frames * rule_.bins));
  pool.parallel_for(frames, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> scratch;
    for (std::int64_t k = begin; k < end; ++k)
      run_frame(padded.data() + k * rule_.hop, out.data() + k * rule_.bins, scratch);
  });
  return out;
}

std::vector<float> LogMel::filters() const {
  const std::int64_t width = rule_.window / 2 + 1;
  std::vector<float> dense(static_cast<std::size_t>(rule_.bins * width));
  for (std::size_t m = 0; m < filters_.size(); ++m)
    std::copy(filters_[m].weights.begin(), filters_[m].weights.end(),
              dense.begin() + static_cast<std::int64_t>(m) * width + filters_[m].first);
  return dense;
}

}  // namespace inkstone::media
