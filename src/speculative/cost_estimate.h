// SPDX-License-Identifier: Apache-2.0
// speculative/cost_estimate.h - what rounds of drafts cost, from the times of those that ran.
#pragma once

#include <array>
#include <cstdint>

#include "speculative/depth_choice.h"

namespace inkstone::speculative {

// The time of a piece of work as a function of its number of rows. A run visits few numbers for long, so what
// was seen of the others must outlive it: each number has a mean of its own, and what changes for all alike
// (a busy machine, longer sequences) is a factor beside them, learnt from whatever runs. Between and beyond
// the numbers seen lies a straight line, which noise cannot tilt downwards. Not thread-safe.
class CostCurve {
 public:
  // What runs for the first time finds cold memory: of so many first times of a number of rows the least
  // counts, and until then nothing is known of it.
  explicit CostCurve(std::int64_t first_times) : first_times_(first_times) {}

  void add(double rows, double us);
  // 0 before anything is known.
  [[nodiscard]] double at(double rows) const;
  [[nodiscard]] std::int64_t num_known() const { return num_known_; }

 private:
  // Up to kExact rows each number has a mean; beyond, numbers share one with those of about their size.
  static constexpr std::size_t kExact = 16;
  static constexpr std::size_t kMeans = kExact + 16;
  struct Mean {
    double weight = 0;
    std::int64_t seen = 0;
    double rows = 0;
    double us = 0;  // over the factor
  };

  static std::size_t index_of(double rows);
  void lay_line();
  [[nodiscard]] double line(double rows) const { return mean_us_ + slope_ * (rows - mean_rows_); }
  [[nodiscard]] double relative(double rows) const;

  std::int64_t first_times_;
  std::array<Mean, kMeans> means_;
  std::int64_t num_known_ = 0;
  double factor_ = 1;
  double slope_ = 0;
  double mean_rows_ = 0;
  double mean_us_ = 0;
};

// What a round took.
struct RoundSample {
  std::int64_t trunk_rows = 0;
  double verify_us = 0;
  std::int64_t passes = 0;           // of the heads; 0 where they are not to be learnt from
  std::int64_t sequence_depths = 0;  // sum of the depths that run: a pass has about as many rows
  double draft_us = 0;
};

// Not thread-safe.
class CostEstimate {
 public:
  void observe(const RoundSample& sample);
  [[nodiscard]] std::int64_t rounds() const { return rounds_; }
  // Of one of so many sequences, when all draft as deep. A pass runs as many rows of a sequence as it has
  // depths, or one more (speculative/head_rows.h). Passes of one size seen: others are taken to cost by the
  // row, a guess in favour of few drafts, which trying them corrects; the opposite guess would never try
  // them.
  [[nodiscard]] RoundCost cost(std::int64_t num_sequences) const;

 private:
  std::int64_t rounds_ = 0;
  CostCurve verify_{3};  // of the trunk's rows
  // Of the depths of all sequences. Depths that come to be used are in favour (above) for long enough to be
  // warm.
  CostCurve pass_{8};
};

}  // namespace inkstone::speculative
