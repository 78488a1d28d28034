// SPDX-License-Identifier: Apache-2.0
// speculative/depth_choice.h - `--speculate auto`: how many drafts a sequence asks for, from measured
// acceptance and measured times.
#pragma once

#include <cstdint>

#include "speculative/acceptance.h"

namespace inkstone::speculative {

// Straight-line model of one round: verify_us = verify_base + verify_row * rows, draft_us = draft_pass *
// depth.
struct RoundCost {
  double verify_base_us = 0;
  double verify_row_us = 0;
  double draft_pass_us = 0;
};

// Least squares over measured rounds with old ones fading. Not thread-safe.
class CostEstimate {
 public:
  // A round of `rows` trunk rows and `draft_passes` head passes that took these times.
  void observe(std::int64_t rows, double verify_us, std::int64_t draft_passes, double draft_us);
  // Enough different rounds were seen for a line; before that a caller drafts at every depth in turn.
  [[nodiscard]] bool ready() const;
  [[nodiscard]] RoundCost cost() const;

 private:
  // Weighted sums of the regression of verify time on rows.
  double weight_ = 0;
  double rows_ = 0;
  double rows_squared_ = 0;
  double time_ = 0;
  double time_rows_ = 0;
  double draft_time_ = 0;
  double draft_passes_ = 0;
};

// The depth in 0 .. max_depth with the most expected tokens per microsecond, the smaller one of equals.
// `other_rows` are the rows that the step carries for other sequences: a sequence pays its share of the fixed
// part, 1 / (1 + other sequences).
struct DepthQuestion {
  const AcceptanceEstimate* estimate = nullptr;
  RoundCost cost;
  std::int64_t max_depth = 0;
  std::int64_t num_sequences = 1;  // in the step, this one included
};
std::int64_t choose_depth(const DepthQuestion& question);

}  // namespace inkstone::speculative
