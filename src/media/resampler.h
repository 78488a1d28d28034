// SPDX-License-Identifier: Apache-2.0
// media/resampler.h - a sound at another rate: windowed sinc as torchaudio defines it (`multimodal.md` 3.2).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace inkstone::media {

// The filter for one pair of rates. Hann window, six zero crossings, roll-off 0.99. Immutable; thread-safe.
class Resampler {
 public:
  Resampler(std::int64_t rate, std::int64_t target_rate);

  // ceil(n * target / rate) samples; the input itself when the rates are equal.
  [[nodiscard]] std::vector<float> run(std::span<const float> samples) const;

 private:
  static constexpr std::int64_t kLanes = 8;  // partial sums of one output

  std::int64_t step_in_ = 1;   // rate / gcd: input samples per period
  std::int64_t step_out_ = 1;  // target / gcd: output samples per period, each with a kernel of its own
  std::int64_t taps_ = 0;      // stored per phase, a multiple of kLanes
  std::vector<std::int64_t>
      first_;                  // [step_out] offset of the first tap from the period's first input sample
  std::vector<float> kernel_;  // [step_out, taps]
};

// Filters by source rate, made when first asked for. Thread-safe. Holds the last few.
class ResamplerCache {
 public:
  explicit ResamplerCache(std::int64_t target_rate) : target_rate_(target_rate) {}
  std::shared_ptr<const Resampler> at(std::int64_t rate);

 private:
  static constexpr std::size_t kMaxFilters = 8;

  std::int64_t target_rate_;
  std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const Resampler>> filters_;
};

}  // namespace inkstone::media
