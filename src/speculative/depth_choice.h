// SPDX-License-Identifier: Apache-2.0
// speculative/depth_choice.h - `--speculate auto`: how many drafts a sequence asks for, from measured
// acceptance and measured times.
#pragma once

#include <cstdint>

#include "speculative/acceptance.h"

namespace inkstone::speculative {

// Model of one round with `depth` passes of the heads over `rows` rows each:
//   verify_us = verify_base + verify_row * trunk rows
//   draft_us  = depth * (draft_pass + draft_row * rows)
// Where weights are read from memory the rows are almost free; where they are computed they are not.
struct RoundCost {
  double verify_base_us = 0;
  double verify_row_us = 0;
  double draft_pass_us = 0;
  double draft_row_us = 0;
};

// Of one sequence alone. A pass runs about as many of its rows as it has depths (speculative/head_rows.h).
double draft_us(const RoundCost& cost, std::int64_t depth);

// What a round took.
struct RoundSample {
  std::int64_t trunk_rows = 0;
  double verify_us = 0;
  std::int64_t passes = 0;
  std::int64_t pass_rows = 0;  // of the first pass
  double draft_us = 0;
};

// A straight line through points of which old ones fade: least squares. Neither falls nor starts below zero,
// towards which noise can tilt it. While all recent points are alike the slope stays what it was.
class FadingLine {
 public:
  void add(double x, double y);
  // Once there were enough points, far enough apart.
  [[nodiscard]] bool has_slope() const { return has_slope_; }
  [[nodiscard]] bool empty() const { return weight_ == 0; }
  [[nodiscard]] double slope() const { return slope_; }  // 0 without one
  [[nodiscard]] double start() const;                    // at x = 0
  [[nodiscard]] double ratio() const { return x_ > 0 ? y_ / x_ : 0; }

 private:
  double weight_ = 0;
  double x_ = 0;
  double y_ = 0;
  double xx_ = 0;
  double xy_ = 0;
  double slope_ = 0;
  bool has_slope_ = false;
};

// Not thread-safe.
class CostEstimate {
 public:
  void observe(const RoundSample& sample);
  // Passes are taken to cost by the row until passes of different sizes were seen: a guess in favour of few
  // drafts, which trying them corrects; the opposite guess would never try them.
  [[nodiscard]] RoundCost cost() const;
  // Enough different rounds were seen; before that a caller drafts at every depth in turn.
  [[nodiscard]] bool ready() const { return verify_.has_slope() && !pass_.empty(); }

 private:
  FadingLine verify_;  // of the trunk's rows
  FadingLine pass_;    // one pass, of its rows
};

// The depth in 0 .. max_depth with the most expected tokens per microsecond, the smaller one of equals.
// A sequence pays for its own rows and its share of the fixed parts.
struct DepthQuestion {
  const AcceptanceEstimate* estimate = nullptr;
  RoundCost cost;
  std::int64_t max_depth = 0;
  std::int64_t num_sequences = 1;  // in the step, this one included
};
std::int64_t choose_depth(const DepthQuestion& question);

}  // namespace inkstone::speculative
