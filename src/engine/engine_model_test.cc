// SPDX-License-Identifier: Apache-2.0
// The loop over the real model on the reference backend.
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

// One forward pass over everything for every token: no cache, no engine.
std::vector<std::int32_t> continue_naively(const testing::MiniModel& mini, std::vector<std::int32_t> ids,
                                           std::int64_t count) {
  const std::size_t begin = ids.size();
  for (std::int64_t i = 0; i < count; ++i) {
    model::ProbeRequest request;
    request.ids = ids;
    request.all_choices = true;
    ids.push_back(mini.run(request).choices.back().best);
  }
  return {ids.begin() + static_cast<std::ptrdiff_t>(begin), ids.end()};
}

TEST(EngineModel, AnswersAsAForwardPassOverEverythingDoes) {
  testing::MiniModel mini;
  std::mt19937 random(1);
  std::vector<Submission> submissions;
  for (const std::int64_t length : {1, 3, 70, 131})
    submissions.push_back(greedy(random_prompt(random, length), 6));
  const auto engine = mini_engine(mini, mini_options());
  const std::vector<Answer> answers = run_together(*engine, submissions);
  for (std::size_t i = 0; i < submissions.size(); ++i) {
    EXPECT_EQ(answers[i].ids, continue_naively(mini, submissions[i].prompt, 6)) << i;
    EXPECT_EQ(answers[i].outcome.reason, FinishReason::kLength);
  }
}

}  // namespace
}  // namespace inkstone::engine
