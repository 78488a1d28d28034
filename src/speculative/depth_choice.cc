// SPDX-License-Identifier: Apache-2.0
#include "speculative/depth_choice.h"

#include <algorithm>

namespace inkstone::speculative {
namespace {

constexpr double kFade = 0.98;  // weight of the past at each round: about fifty rounds count
constexpr double kEnoughRounds = 4;
constexpr double kEnoughSpread = 0.02;  // variance of the number of rows below which no line can be laid

}  // namespace

void FadingLine::add(double x, double y) {
  for (double* sum : {&weight_, &x_, &y_, &xx_, &xy_}) *sum *= kFade;
  weight_ += 1;
  x_ += x;
  y_ += y;
  xx_ += x * x;
  xy_ += x * y;
  const double mean = x_ / weight_;
  if (weight_ < kEnoughRounds || xx_ / weight_ - mean * mean < kEnoughSpread) return;
  slope_ = std::clamp((weight_ * xy_ - x_ * y_) / (weight_ * xx_ - x_ * x_), 0.0, y_ / x_);
  has_slope_ = true;
}

double FadingLine::start() const { return empty() ? 0.0 : std::max(0.0, (y_ - slope() * x_) / weight_); }

void CostEstimate::observe(const RoundSample& sample) {
  verify_.add(static_cast<double>(sample.trunk_rows), sample.verify_us);
  if (sample.passes > 0)
    pass_.add(static_cast<double>(sample.pass_rows), sample.draft_us / static_cast<double>(sample.passes));
}

RoundCost CostEstimate::cost() const {
  return {.verify_base_us = verify_.start(),
          .verify_row_us = verify_.slope(),
          .draft_pass_us = pass_.has_slope() ? pass_.start() : 0,
          .draft_row_us = pass_.has_slope() ? pass_.slope() : pass_.ratio()};
}

double draft_us(const RoundCost& cost, std::int64_t depth) {
  const auto passes = static_cast<double>(depth);
  return passes * (cost.draft_pass_us + passes * cost.draft_row_us);
}

std::int64_t choose_depth(const DepthQuestion& question) {
  const RoundCost& cost = question.cost;
  const double share = 1.0 / static_cast<double>(std::max<std::int64_t>(1, question.num_sequences));
  std::int64_t best = 0;
  double best_rate = 0;
  for (std::int64_t depth = 0; depth <= question.max_depth; ++depth) {
    const auto passes = static_cast<double>(depth);
    const double shared = cost.verify_base_us + passes * cost.draft_pass_us;
    const double own = (1 + passes) * cost.verify_row_us + passes * passes * cost.draft_row_us;
    const double time = share * shared + own;
    const double rate = expected_tokens(*question.estimate, depth) / std::max(time, 1e-9);
    if (rate > best_rate) {
      best_rate = rate;
      best = depth;
    }
  }
  return best;
}

}  // namespace inkstone::speculative
