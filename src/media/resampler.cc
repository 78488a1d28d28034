// SPDX-License-Identifier: Apache-2.0
#include "media/resampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/check.h"

namespace inkstone::media {
namespace {

constexpr double kCrossings = 6;
constexpr double kRollOff = 0.99;

// Window times sinc at `t` zero crossings from the centre; 0 from the sixth on.
double response(double t) {
  if (std::fabs(t) >= kCrossings) return 0;
  if (t == 0) return 1;
  const double window = std::cos(std::numbers::pi * t / kCrossings / 2);
  return window * window * std::sin(std::numbers::pi * t) / (std::numbers::pi * t);
}

}  // namespace

Resampler::Resampler(std::int64_t rate, std::int64_t target_rate) {
  INK_CHECK(rate > 0 && target_rate > 0, "rates are positive");
  const std::int64_t divisor = std::gcd(rate, target_rate);
  step_in_ = rate / divisor;
  step_out_ = target_rate / divisor;
  if (step_in_ == step_out_) return;
  const auto in = static_cast<double>(step_in_);
  const auto out = static_cast<double>(step_out_);
  const double base = kRollOff * std::min(in, out);
  const double reach = kCrossings * in / base;  // input samples on each side
  taps_ = (2 * static_cast<std::int64_t>(std::ceil(reach)) + 1 + kLanes - 1) / kLanes * kLanes;
  kernel_.resize(static_cast<std::size_t>(step_out_ * taps_));
  for (std::int64_t p = 0; p < step_out_; ++p) {
    const double phase = static_cast<double>(p) / out;
    const auto first = static_cast<std::int64_t>(std::ceil(phase * in - reach));
    first_.push_back(first);
    for (std::int64_t j = 0; j < taps_; ++j) {
      const double t = base * (static_cast<double>(first + j) / in - phase);
      kernel_[static_cast<std::size_t>(p * taps_ + j)] = static_cast<float>(base / in * response(t));
    }
  }
}

std::vector<float> Resampler::run(std::span<const float> samples) const {
  if (step_in_ == step_out_) return {samples.begin(), samples.end()};
  const auto count = static_cast<std::int64_t>(samples.size());
  const std::int64_t length = (count * step_out_ + step_in_ - 1) / step_in_;
  // Silence on both sides, so that every tap has a sample.
  const std::int64_t before = -first_.front();
  std::vector<float> padded(static_cast<std::size_t>(before + count + step_in_ + 2 * taps_));
  std::copy(samples.begin(), samples.end(), padded.begin() + before);
  std::vector<float> out(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t phase = i % step_out_;
    const float* x =
        padded.data() + before + i / step_out_ * step_in_ + first_[static_cast<std::size_t>(phase)];
    const float* kernel = kernel_.data() + phase * taps_;
    std::array<float, kLanes> sums{};
    for (std::int64_t j = 0; j < taps_; j += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        sums[static_cast<std::size_t>(lane)] += x[j + lane] * kernel[j + lane];
    }
    out[static_cast<std::size_t>(i)] = std::accumulate(sums.begin(), sums.end(), 0.0F);
  }
  return out;
}

std::shared_ptr<const Resampler> ResamplerCache::at(std::int64_t rate) {
  const std::lock_guard lock(mutex_);
  const auto found = filters_.find(rate);
  if (found != filters_.end()) return found->second;
  if (filters_.size() >= kMaxFilters) filters_.clear();
  return filters_[rate] = std::make_shared<const Resampler>(rate, target_rate_);
}

}  // namespace inkstone::media
