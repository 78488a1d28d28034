// SPDX-License-Identifier: Apache-2.0
// The loop over the real model on the reference backend.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/mini_engine.h"
#include "tests/support/recording_backend.h"

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

// --- the numeric contract (`architecture.md` 1.2), bitwise on the reference backend: ids and
// log-probabilities ---

class NumericContract : public ::testing::Test {
 protected:
  // A greedy and a drawn answer to prompts of awkward lengths.
  std::vector<Submission> watched() {
    std::mt19937 random(11);
    std::vector<Submission> submissions;
    for (const std::int64_t length : {1, 5, 63, 64, 130, 200}) {
      submissions.push_back(greedy(random_prompt(random, length), 12));
      submissions.push_back(submissions.back());
      submissions.back().sampling.temperature = 1;
      submissions.back().sampling.top_p = 0.95;
      submissions.back().sampling.frequency_penalty = 0.5;
      submissions.back().sampling.seed = 1234;
    }
    return submissions;
  }
  std::vector<Answer> alone(EngineOptions options) {
    options.max_sequences = 1;
    const auto engine = mini_engine(mini, options);
    std::vector<Answer> answers;
    for (const Submission& submission : watched()) answers.push_back(run_together(*engine, {submission})[0]);
    return answers;
  }
  static void expect_same(const std::vector<Answer>& actual, const std::vector<Answer>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i].ids, expected[i].ids) << i;
      EXPECT_EQ(actual[i].logprobs, expected[i].logprobs) << i;
    }
  }
  static EngineOptions cold() {
    EngineOptions options = mini_options();
    options.reuse_prefixes = false;
    return options;
  }

  testing::MiniModel mini;
};

TEST_F(NumericContract, ChunksOfAPromptDoNotMatter) {
  const std::vector<Answer> whole = alone(cold());
  for (const std::int64_t chunk : {1, 5, 64}) {
    EngineOptions options = cold();
    options.max_chunk_tokens = chunk;
    expect_same(alone(options), whole);
  }
}

TEST_F(NumericContract, NeighboursDoNotMatter) {
  const std::vector<Answer> expected = alone(cold());
  EngineOptions options = cold();
  options.max_sequences = 32;
  options.cache_tokens = 32 * 256;
  std::mt19937 random(5);
  const std::vector<Submission> own = watched();
  for (std::size_t i = 0; i < own.size(); i += 4) {
    std::vector<Submission> crowd;
    for (int n = 0; n < 31; ++n) {
      crowd.push_back(
          greedy(random_prompt(random, 1 + static_cast<std::int64_t>(random() % 80)), 4 + random() % 12));
      crowd.back().sampling.temperature = 1.5;
    }
    crowd.insert(crowd.begin() + 17, own[i]);
    const auto engine = mini_engine(mini, options);
    expect_same({run_together(*engine, crowd)[17]}, {expected[i]});
  }
}

TEST_F(NumericContract, AWarmCacheDoesNotMatter) {
  const std::vector<Answer> expected = alone(cold());
  const auto engine = mini_engine(mini, mini_options());
  for (int round = 0; round < 3; ++round) {
    const std::vector<Answer> answers = run_together(*engine, watched());
    expect_same(answers, expected);
    if (round == 0) continue;
    for (std::size_t i = 2; i < answers.size(); ++i)
      EXPECT_EQ(answers[i].outcome.usage.cached_tokens, answers[i].outcome.usage.prompt_tokens - 1) << i;
  }
}

TEST_F(NumericContract, PreemptionBySwappingDoesNotMatter) {
  const std::vector<Answer> expected = alone(cold());
  EngineOptions options = cold();
  options.cache_tokens = 6 * 64;
  options.answer_reserve_tokens = 0;
  const auto engine = mini_engine(mini, options);
  expect_same(run_together(*engine, watched()), expected);
  EXPECT_GT(engine->stats().swaps, 0);
  EXPECT_EQ(engine->stats().recomputes, 0);
}

TEST_F(NumericContract, PreemptionByRecomputingDoesNotMatter) {
  const std::vector<Answer> expected = alone(cold());
  EngineOptions options = cold();
  options.cache_tokens = 6 * 64;
  options.answer_reserve_tokens = 0;
  options.swap_bytes = 0;
  options.checkpoint_bytes = 0;
  const auto engine = mini_engine(mini, options);
  expect_same(run_together(*engine, watched()), expected);
  EXPECT_GT(engine->stats().recomputes, 0);
}

// Broken control: a runner that leaves one kind of rows out when state comes back.
class ForgetfulRunner final : public ModelRunner {
 public:
  ForgetfulRunner(std::unique_ptr<ModelRunner> inner, std::int64_t group)
      : inner_(std::move(inner)), group_(group) {}
  const model::StateSpec& state_spec() const override { return inner_->state_spec(); }
  Status copy_state(std::span<const cache::RowCopy> copies) override {
    for (const cache::RowCopy& copy : copies) {
      const bool comes_back =
          copy.to.space == cache::Space::kDevice && copy.from.space != cache::Space::kPoison;
      if (!comes_back || copy.group != group_) INK_TRY(inner_->copy_state({&copy, 1}));
    }
    return {};
  }
  Status submit(const StepBatch& batch) override { return inner_->submit(batch); }
  Status collect(std::vector<sampling::SampledToken>& drawn) override { return inner_->collect(drawn); }

 private:
  std::unique_ptr<ModelRunner> inner_;
  std::int64_t group_;
};

TEST_F(NumericContract, NoticesAnyKindOfStateLeftOutOfARestore) {
  EngineOptions options = mini_options();
  options.integrity_checks = false;  // old rows of others instead of NaN
  options.max_sequences = 1;
  options.spare_slots = 1;
  const auto groups = {model::BlockState::kKv, model::BlockState::kKConv, model::BlockState::kVConv,
                       model::BlockState::kAttentionConv, model::BlockState::kMlpConv};
  std::vector<std::int64_t> left_out;
  for (const model::BlockState state : groups)
    left_out.push_back(static_cast<std::int64_t>(model::group_index(2, state)));
  left_out.push_back(static_cast<std::int64_t>(model::group_index(3, model::BlockState::kKv)));  // pages
  std::mt19937 random(8);
  const Submission first = greedy(random_prompt(random, 150), 4);
  for (const std::int64_t group : left_out) {
    const auto engine = mini_engine(mini, options, [&](std::unique_ptr<ModelRunner> runner) {
      return std::make_unique<ForgetfulRunner>(std::move(runner), group);
    });
    const Answer before = run_together(*engine, {first})[0];
    // Every slot gets rows of somebody else.
    for (int i = 0; i < 2; ++i) run_together(*engine, {greedy(random_prompt(random, 200), 4)});
    const Answer after = run_together(*engine, {first})[0];
    ASSERT_GT(after.outcome.usage.cached_tokens, 0);
    EXPECT_NE(after.logprobs, before.logprobs) << group;
  }
}

// Cases B59: lengths around every window, together and alone.
TEST_F(NumericContract, LengthsAroundTheConvolutionDoNotMatter) {
  std::mt19937 random(3);
  std::vector<Submission> submissions;
  for (const std::int64_t length : {1, 2, 3, 4, 5, 300})
    submissions.push_back(greedy(random_prompt(random, length), 5));
  const std::vector<Answer> together = run_together(*mini_engine(mini, cold()), submissions);
  for (std::size_t i = 0; i < submissions.size(); ++i)
    expect_same(run_together(*mini_engine(mini, cold()), {submissions[i]}), {together[i]});
}

// Cases B20, B21, B45, B52: twenty turns, each rendered with an end marker that the answer may not have had.
TEST(EngineConversation, TwentyTurnsWithReuseAreTwentyTurnsWithout) {
  constexpr std::int32_t kEndOfTurn = 2007;
  testing::MiniModel mini;
  EngineOptions options = mini_options();
  options.max_context_tokens = 2048;
  options.cache_tokens = 2048 + 512;
  const auto warm = mini_engine(mini, options);
  options.reuse_prefixes = false;
  const auto plain = mini_engine(mini, options);
  std::mt19937 random(20);
  std::vector<std::int32_t> history;
  for (int turn = 0; turn < 20; ++turn) {
    const auto message = random_prompt(random, 3 + static_cast<std::int64_t>(random() % 40));
    history.insert(history.end(), message.begin(), message.end());
    Submission submission = greedy(history, 12);
    submission.end_ids = {kEndOfTurn};
    const Answer answer = run_together(*warm, {submission})[0];
    ASSERT_EQ(answer, run_together(*plain, {submission})[0]) << turn;
    const auto known = static_cast<std::int64_t>(turn == 0 ? 0 : history.size() - message.size());
    EXPECT_LT(known - answer.outcome.usage.cached_tokens, 16) << turn;
    history.insert(history.end(), answer.ids.begin(), answer.ids.end());
    if (turn % 3 == 1) history.resize(history.size() - 2);
    if (history.back() != kEndOfTurn) history.push_back(kEndOfTurn);
  }
}

// Seven sequences take the recording of eight rows.
TEST_F(NumericContract, RecordedStepsDoNotMatter) {
  const std::vector<Answer> expected = alone(cold());
  auto backend = std::make_unique<testing::RecordingBackend>(0);
  const testing::RecordingBackend& recording = *backend;
  mini.backend = std::move(backend);
  for (const std::int64_t drafts : {0, 2}) {
    EngineOptions options = cold();
    options.max_sequences = 7;
    options.draft_rows = drafts;
    const int before = recording.replays;
    const auto engine = mini_engine(mini, options);
    expect_same(run_together(*engine, watched()), expected);
    EXPECT_GT(recording.replays, before);
  }
}

}  // namespace
}  // namespace inkstone::engine
