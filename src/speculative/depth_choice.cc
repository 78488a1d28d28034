// SPDX-License-Identifier: Apache-2.0
#include "speculative/depth_choice.h"

#include <algorithm>

namespace inkstone::speculative {
namespace {

constexpr double kFade = 0.98;  // weight of the past at each round: about fifty rounds count
constexpr double kEnoughRounds = 4;
constexpr double kEnoughSpread = 1e-3;  // variance of the number of rows below which no line can be laid

}  // namespace

void CostEstimate::observe(std::int64_t rows, double verify_us, std::int64_t draft_passes, double draft_us) {
  const auto x = static_cast<double>(rows);
  for (double* sum : {&weight_, &rows_, &rows_squared_, &time_, &time_rows_, &draft_time_, &draft_passes_}) {
    *sum *= kFade;
  }
  weight_ += 1;
  rows_ += x;
  rows_squared_ += x * x;
  time_ += verify_us;
  time_rows_ += verify_us * x;
  draft_time_ += draft_us;
  draft_passes_ += static_cast<double>(draft_passes);
}

bool CostEstimate::ready() const {
  if (weight_ < kEnoughRounds || draft_passes_ == 0) return false;
  const double mean = rows_ / weight_;
  return rows_squared_ / weight_ - mean * mean > kEnoughSpread;
}

RoundCost CostEstimate::cost() const {
  const double determinant = weight_ * rows_squared_ - rows_ * rows_;
  const double slope = (weight_ * time_rows_ - rows_ * time_) / determinant;
  // Noise can tilt the line; times neither fall with the rows nor start below zero.
  const double row_us = std::clamp(slope, 0.0, time_ / rows_);
  return {.verify_base_us = std::max(0.0, (time_ - row_us * rows_) / weight_),
          .verify_row_us = row_us,
          .draft_pass_us = draft_time_ / draft_passes_};
}

std::int64_t choose_depth(const DepthQuestion& question) {
  const RoundCost& cost = question.cost;
  const double share = 1.0 / static_cast<double>(std::max<std::int64_t>(1, question.num_sequences));
  std::int64_t best = 0;
  double best_rate = 0;
  for (std::int64_t depth = 0; depth <= question.max_depth; ++depth) {
    const auto passes = static_cast<double>(depth);
    const double time =
        share * (cost.verify_base_us + passes * cost.draft_pass_us) + (1 + passes) * cost.verify_row_us;
    const double rate = expected_tokens(*question.estimate, depth) / std::max(time, 1e-9);
    if (rate > best_rate) {
      best_rate = rate;
      best = depth;
    }
  }
  return best;
}

}  // namespace inkstone::speculative
