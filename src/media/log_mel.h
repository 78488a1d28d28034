// SPDX-License-Identifier: Apache-2.0
// media/log_mel.h - sound to log-mel values, one row per audio token (`multimodal.md` 3.3).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace inkstone::media {

struct MelRule {
  std::int64_t rate = 16000;   // samples a second
  std::int64_t hop = 800;      // samples per frame
  std::int64_t window = 1600;  // samples under the window, also the length of the transform; even
  std::int64_t bins = 80;      // filters from 0 to rate / 2
};

// Magnitudes through Slaney's filters, in double; log10 rounded to f32. Immutable; thread-safe.
class LogMel {
 public:
  explicit LogMel(const MelRule& rule);
  ~LogMel();
  LogMel(const LogMel&) = delete;
  LogMel& operator=(const LogMel&) = delete;

  // T = ceil(samples / hop). Frame k ends with hop k: it sees nothing of what follows.
  [[nodiscard]] std::int64_t num_frames(std::int64_t num_samples) const {
    return (num_samples + rule_.hop - 1) / rule_.hop;
  }
  // [T, bins], frames spread over the pool.
  [[nodiscard]] std::vector<float> run(std::span<const float> samples, ThreadPool& pool) const;

  // Weights [bins, window / 2 + 1], for tests.
  [[nodiscard]] std::vector<float> filters() const;

 private:
  struct Transform;
  // The part of one filter that is not zero.
  struct Filter {
    std::int64_t first = 0;
    std::vector<float> weights;
  };

  void run_frame(const double* samples, float* out, std::vector<double>& scratch) const;

  MelRule rule_;
  std::vector<double> window_;
  std::vector<Filter> filters_;
  std::unique_ptr<Transform> transform_;
};

}  // namespace inkstone::media
