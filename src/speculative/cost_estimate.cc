// SPDX-License-Identifier: Apache-2.0
#include "speculative/cost_estimate.h"

#include <algorithm>
#include <cmath>

namespace inkstone::speculative {
namespace {

constexpr double kMemory = 100;  // observations of one number of rows that count
// What has not been seen for long is doubted: what a number costs beside others changes too.
constexpr double kFade = 0.95;
constexpr double kLeastWeight = 2;
constexpr double kFactorMemory = 8;  // of all numbers, for what changes alike
constexpr double kTrust = 1;         // observations after which a mean counts as much as the line
// The line's slope starts at half of what rows would cost if nothing were fixed.
constexpr double kSlopePrior = 0.5;
constexpr double kSlopePriorWeight = 2;
// One disturbed round must not decide anything.
constexpr double kLargestSurprise = 1.3;

}  // namespace

std::size_t CostCurve::index_of(double rows) {
  const auto exact = static_cast<double>(kExact);
  if (rows < exact) return static_cast<std::size_t>(std::max(rows, 0.0));
  const double octaves = 2 * std::log2(rows / exact);
  return std::min(kExact + static_cast<std::size_t>(octaves), kMeans - 1);
}

void CostCurve::add(double rows, double us) {
  Mean& mean = means_[index_of(rows)];
  for (Mean& other : means_)
    if (&other != &mean && other.weight > kLeastWeight)
      other.weight = std::max(kLeastWeight, other.weight * kFade);
  ++mean.seen;
  if (mean.seen <= first_times_) {
    const double relative = us / factor_;
    mean.us = mean.seen == 1 ? relative : std::min(mean.us, relative);
    mean.rows = rows;
    if (mean.seen < first_times_) return;
    mean.weight = 1;
    ++num_known_;
    return lay_line();
  }
  const double expected = factor_ * mean.us;
  const double taken = std::clamp(us, expected / kLargestSurprise, kLargestSurprise * expected);
  factor_ *= 1 + (taken / expected - 1) / kFactorMemory;
  mean.weight = std::min(mean.weight + 1, kMemory);
  mean.rows += (rows - mean.rows) / mean.weight;
  mean.us += (taken / factor_ - mean.us) / mean.weight;
  lay_line();
}

void CostCurve::lay_line() {
  double weight = 0;
  double rows = 0;
  double us = 0;
  for (const Mean& mean : means_) {
    weight += mean.weight;
    rows += mean.weight * mean.rows;
    us += mean.weight * mean.us;
  }
  mean_rows_ = rows / weight;
  mean_us_ = us / weight;
  const double proportional = mean_us_ / std::max(mean_rows_, 1.0);
  double xx = 0;
  double xy = 0;
  for (const Mean& mean : means_) {
    xx += mean.weight * (mean.rows - mean_rows_) * (mean.rows - mean_rows_);
    xy += mean.weight * (mean.rows - mean_rows_) * (mean.us - mean_us_);
  }
  if (num_known_ == 1) {
    slope_ = proportional;
  } else {
    slope_ = (xy + kSlopePriorWeight * kSlopePrior * proportional) / (xx + kSlopePriorWeight);
    slope_ = std::clamp(slope_, 0.0, proportional);
  }
}

double CostCurve::relative(double rows) const {
  const Mean& mean = means_[index_of(rows)];
  // A mean of many numbers says nothing about one of them beside the line.
  if (mean.weight == 0 || rows >= static_cast<double>(kExact)) return line(rows);
  return line(rows) + (mean.us - line(rows)) * mean.weight / (mean.weight + kTrust);
}

double CostCurve::at(double rows) const { return factor_ * std::max(0.0, relative(rows)); }

void CostEstimate::observe(const RoundSample& sample) {
  ++rounds_;
  verify_.add(static_cast<double>(sample.trunk_rows), sample.verify_us);
  if (sample.passes > 0)
    pass_.add(static_cast<double>(sample.sequence_depths),
              sample.draft_us / static_cast<double>(sample.passes));
}

RoundCost CostEstimate::cost(std::int64_t num_sequences) const {
  const auto sequences = static_cast<double>(std::max<std::int64_t>(1, num_sequences));
  RoundCost cost;
  for (std::size_t depth = 0; depth < cost.verify_us.size(); ++depth) {
    const auto drafts = static_cast<double>(depth);
    cost.verify_us[depth] = verify_.at(sequences * (1 + drafts)) / sequences;
    cost.draft_us[depth] = drafts * pass_.at(sequences * drafts) / sequences;
  }
  return cost;
}

}  // namespace inkstone::speculative
