// SPDX-License-Identifier: Apache-2.0
// A million draws against the softmax they should come from. Optimised builds only.
#include <gtest/gtest.h>

#include <random>

#include "backends/host/sample.h"
#include "tests/support/sample_rig.h"

namespace inkstone::host {
namespace {

using ops::SampleRules;
using test::SampleRig;

constexpr std::int64_t kDraws = 1'000'000;
constexpr std::int64_t kBatch = 1000;

struct Draws {
  std::vector<std::int64_t> counts;  // [V]
  std::vector<std::int64_t> pairs;   // [V * V] of consecutive draws
};

// `vary` sets what differs from draw to draw.
template <class Vary>
Draws draw_many(const std::vector<float>& logits, const SampleRules& rules, Vary vary) {
  const auto vocabulary = static_cast<std::int64_t>(logits.size());
  Draws draws{std::vector<std::int64_t>(logits.size()),
              std::vector<std::int64_t>(logits.size() * logits.size())};
  SampleRig rig(kBatch, vocabulary);
  for (std::int64_t row = 0; row < kBatch; ++row) std::ranges::copy(logits, &rig.logit(row, 0));
  const ops::SampleArgs args = rig.arguments(sample_workspace_bytes(1, vocabulary));
  for (std::int64_t first = 0; first < kDraws; first += kBatch) {
    for (std::int64_t row = 0; row < kBatch; ++row) {
      rig.rules[static_cast<std::size_t>(row)] = rules;
      vary(first + row, rig.rules[static_cast<std::size_t>(row)],
           rig.positions[static_cast<std::size_t>(row)]);
    }
    sample(args, nullptr);
    for (std::size_t row = 0; row < kBatch; ++row) {
      ++draws.counts[static_cast<std::size_t>(rig.ids[row])];
      if (row > 0) ++draws.pairs[static_cast<std::size_t>(rig.ids[row - 1] * vocabulary + rig.ids[row])];
    }
  }
  return draws;
}

std::vector<double> softmax(const std::vector<float>& logits, const SampleRules& rules) {
  std::vector<double> probabilities(logits.size(), 0);
  double sum = 0;
  for (const test::NaiveCandidate& candidate : test::naive_kept(logits, rules)) {
    probabilities[static_cast<std::size_t>(candidate.id)] = std::exp(double{candidate.x});
    sum += std::exp(double{candidate.x});
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

// In standard deviations above its mean, by the cube-root normal approximation of Wilson and Hilferty: below
// 5 in all but one of three million runs of a right sampler, and the draws are the same in every run.
double excess(const std::vector<std::int64_t>& counts, const std::vector<double>& probabilities) {
  double total = 0;
  for (const std::int64_t count : counts) total += static_cast<double>(count);
  double chi_square = 0;
  double freedom = -1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "a token outside the kept set";
      continue;
    }
    const double expected = total * probabilities[i];
    chi_square +=
        (static_cast<double>(counts[i]) - expected) * (static_cast<double>(counts[i]) - expected) / expected;
    freedom += 1;
  }
  const double variance = 2 / (9 * freedom);
  return (std::cbrt(chi_square / freedom) - (1 - variance)) / std::sqrt(variance);
}

std::vector<double> products(const std::vector<double>& probabilities) {
  std::vector<double> pairs;
  for (const double first : probabilities)
    for (const double second : probabilities) pairs.push_back(first * second);
  return pairs;
}

std::vector<float> example_logits() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1.5F);
  std::vector<float> logits(37);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

const auto kByPosition = [](std::int64_t i, SampleRules&, std::int32_t& position) {
  position = static_cast<std::int32_t>(i);
};

TEST(SampleDistribution, IsSoftmaxOverPositionsAndConsecutiveDrawsAreIndependent) {
  const std::vector<float> logits = example_logits();
  const Draws draws = draw_many(logits, {.seed = 42}, kByPosition);
  EXPECT_LT(excess(draws.counts, softmax(logits, {})), 5);
  EXPECT_LT(excess(draws.pairs, products(softmax(logits, {}))), 5);
}

TEST(SampleDistribution, IsSoftmaxOverSeeds) {
  const std::vector<float> logits = example_logits();
  const Draws draws = draw_many(logits, {}, [](std::int64_t i, SampleRules& rules, std::int32_t&) {
    rules.seed = static_cast<std::uint64_t>(i);
  });
  EXPECT_LT(excess(draws.counts, softmax(logits, {})), 5);
  EXPECT_LT(excess(draws.pairs, products(softmax(logits, {}))), 5);
}

TEST(SampleDistribution, IsSoftmaxOverChoices) {
  const std::vector<float> logits = example_logits();
  const Draws draws = draw_many(logits, {}, [](std::int64_t i, SampleRules& rules, std::int32_t&) {
    rules.choice = static_cast<std::uint32_t>(i);
  });
  EXPECT_LT(excess(draws.counts, softmax(logits, {})), 5);
  EXPECT_LT(excess(draws.pairs, products(softmax(logits, {}))), 5);
}

TEST(SampleDistribution, IsTheKeptTokensRenormalised) {
  const std::vector<float> logits = example_logits();
  for (const SampleRules& rules :
       {SampleRules{.temperature = 0.7F, .top_p = 0.9F}, SampleRules{.temperature = 1.4F, .top_k = 11},
        SampleRules{.top_k = 20, .top_p = 0.95F, .min_p = 0.05F}}) {
    const Draws draws = draw_many(logits, rules, kByPosition);
    EXPECT_LT(excess(draws.counts, softmax(logits, rules)), 5);
  }
}

// Broken controls: the same test sees a wrong temperature of 1 % and noise that forgets the position.
TEST(SampleDistribution, WouldNoticeBrokenSampling) {
  const std::vector<float> logits = example_logits();
  const Draws warm = draw_many(logits, {.temperature = 1.01F}, kByPosition);
  EXPECT_GT(excess(warm.counts, softmax(logits, {})), 5);
  const Draws stuck = draw_many(logits, {}, [](std::int64_t, SampleRules&, std::int32_t&) {});
  EXPECT_GT(excess(stuck.counts, softmax(logits, {})), 5);
}

}  // namespace
}  // namespace inkstone::host
