// SPDX-License-Identifier: Apache-2.0
// Drafts change how many tokens a step gives, and nothing else: the loop over the real model on the reference
// backend.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/mini_engine.h"

namespace inkstone::engine {
namespace {

std::vector<std::int32_t> random_prompt(std::mt19937& random, std::int64_t length) {
  std::uniform_int_distribution<std::int32_t> id(0, 250);
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(length));
  for (std::int32_t& token : prompt) token = id(random);
  return prompt;
}

TEST(SpeculationModel, GivesTheAnswersOfPlainDecoding) {
  testing::MiniModel mini;
  std::mt19937 random(1);
  std::vector<Submission> submissions;
  for (const std::int64_t length : {1, 3, 70, 131})
    submissions.push_back(greedy(random_prompt(random, length), 40));
  const std::vector<Answer> plain = run_together(*mini_engine(mini, mini_options()), submissions);
  for (const char* depth : {"1", "3", "8"}) {
    EngineOptions options = mini_options();
    ASSERT_TRUE(set_speculation(depth, "heads", mini.config.num_mtp(), options));
    const auto engine = mini_engine(mini, options);
    EXPECT_EQ(run_together(*engine, submissions), plain) << depth;
    const Speculation counts = engine->stats().speculation;
    EXPECT_GT(counts.accepted, 0) << depth;
    EXPECT_GT(counts.mean_accepted_length(), 1.5) << depth;
  }
}

}  // namespace
}  // namespace inkstone::engine
