// SPDX-License-Identifier: Apache-2.0
// The heads as a device runs them, in windows without the host: the drafts are those of pass after pass, and
// so is the state that they leave.
#include <gtest/gtest.h>

#include "tests/speculation/loop_rig.h"
#include "tests/speculation/row_checker.h"
#include "tests/support/recording_backend.h"

namespace inkstone::testing {
namespace {

using engine::Answer;
using engine::EngineOptions;
using engine::StepLoop;
using engine::Submission;

// Writes down what is fed to every step: tokens and drafts.
class FedRows final : public engine::ModelRunner {
 public:
  FedRows(std::unique_ptr<engine::ModelRunner> inner, std::vector<std::vector<std::int32_t>>& fed)
      : inner_(std::move(inner)), fed_(fed) {}

  [[nodiscard]] const model::StateSpec& state_spec() const override { return inner_->state_spec(); }
  [[nodiscard]] std::int64_t steps_ahead() const override { return inner_->steps_ahead(); }
  [[nodiscard]] speculative::Drafter* drafter() override { return inner_->drafter(); }
  Status copy_state(std::span<const cache::RowCopy> copies) override { return inner_->copy_state(copies); }
  Status submit(const engine::StepBatch& batch) override {
    fed_.push_back(batch.ids);
    return inner_->submit(batch);
  }
  Status collect(std::vector<sampling::SampledToken>& drawn) override { return inner_->collect(drawn); }
  [[nodiscard]] bool drafts_with_step() const override { return with_step && inner_->drafts_with_step(); }
  Status collect_drafts(std::vector<speculative::WindowDrafts>& drafts) override {
    ++rounds;
    return inner_->collect_drafts(drafts);
  }
  bool with_step = true;
  int rounds = 0;  // whose drafts came with the step

 private:
  std::unique_ptr<engine::ModelRunner> inner_;
  std::vector<std::vector<std::int32_t>>& fed_;
};

class Chain : public ::testing::Test {
 protected:
  Chain() {
    auto recording = std::make_unique<RecordingBackend>(0);
    recording_ = recording.get();
    device_.backend = std::move(recording);
  }

  static EngineOptions cold(std::int64_t depth) {
    EngineOptions options = engine::mini_options();
    options.reuse_prefixes = false;
    return drafting(options, depth);
  }
  std::vector<Answer> run(MiniModel& mini, const EngineOptions& options,
                          const std::vector<Submission>& submissions, bool with_step = true) {
    fed_.clear();
    auto runner = engine::DecoderRunner::create({&mini.config, &mini.weights, mini.backend.get()}, options,
                                                sampling::TokenMask(mini.config.valid_vocabulary));
    INK_CHECK(runner.has_value(), runner ? "" : runner.error().message);
    FedRows watched(std::move(*runner), fed_);
    watched.with_step = with_step;
    StepLoop loop(watched, options);
    std::vector<Answer> answers = run_loop(loop, submissions);
    rounds_ = watched.rounds;
    return answers;
  }
  // Random words, behind which some drafts are right; every second is drawn at a temperature.
  std::vector<Submission> mixed() {
    std::vector<Submission> submissions;
    for (const std::int64_t length : {1, 9, 33, 70, 12}) {
      submissions.push_back(engine::greedy(random_ids(random_, length), 30 + length / 3));
      sampling::SamplingParams& params = submissions.back().sampling;
      params.logprobs = length % 3;
      if (submissions.size() % 2 == 0) continue;
      params.temperature = 0.8;
      params.top_k = 40;
      params.seed = 7 + submissions.size();
      params.logit_bias = {{310, -1.5}};
    }
    return submissions;
  }
  void expect_alike(const std::vector<Answer>& actual, const std::vector<Answer>& expected) {
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i], expected[i]) << i;
      EXPECT_EQ(actual[i].outcome.speculation.drafted_at, expected[i].outcome.speculation.drafted_at) << i;
      EXPECT_EQ(actual[i].outcome.speculation.accepted_at, expected[i].outcome.speculation.accepted_at) << i;
    }
  }

  MiniModel mini_;
  MiniModel device_;
  RecordingBackend* recording_ = nullptr;
  std::mt19937 random_{3};
  std::vector<std::vector<std::int32_t>> fed_;
  int rounds_ = 0;
};

TEST_F(Chain, DraftsWhatPassAfterPassDrafts) {
  const std::vector<Submission> submissions = mixed();
  for (const std::int64_t depth : {1, 3, 8}) {
    const std::vector<Answer> expected = run(mini_, cold(depth), submissions);
    const auto fed = fed_;
    for (const int way : {0, 1, 2, 3}) {
      EngineOptions options = cold(depth);
      options.record_steps = way != 0;
      options.split_rounds = way == 2;
      const bool with_step = way != 3;
      const int before = recording_->replays;
      expect_alike(run(device_, options, submissions, with_step), expected);
      EXPECT_EQ(fed_, fed) << depth << " " << way;
      EXPECT_EQ(recording_->replays > before, options.record_steps);
      EXPECT_EQ(rounds_ > 4, with_step) << rounds_;
    }
  }
}

// The chain reads the step's arrays, whose places depend on how many rows that has: 72 of eight sequences,
// then fewer, behind windows of the same shape.
TEST_F(Chain, FollowsTheRowsOfItsStep) {
  std::vector<Submission> submissions;
  for (std::int64_t i = 0; i < 8; ++i)
    submissions.push_back(engine::greedy(random_ids(random_, 16), 20 + 5 * i));
  EngineOptions options = cold(8);
  options.max_sequences = 8;
  const std::vector<Answer> expected = run(mini_, options, submissions);
  options.split_rounds = true;
  expect_alike(run(device_, options, submissions), expected);
  EXPECT_GT(rounds_, 8);
}

// A recording for windows of up to 32 sequences, made where the step is padded to 64 of them, replayed where
// it is padded to fewer.
TEST_F(Chain, FollowsTheSequencesOfItsStep) {
  std::vector<Submission> submissions;
  for (std::int64_t i = 0; i < 72; ++i) submissions.push_back(engine::greedy(random_ids(random_, 4), 3 + i));
  EngineOptions options = cold(1);
  options.max_sequences = 72;
  options.cache_tokens = 72 * 64;
  const std::vector<Answer> expected = run(mini_, options, submissions);
  options.split_rounds = true;
  expect_alike(run(device_, options, submissions), expected);
  EXPECT_GT(rounds_, 8);
}

// Penalties count the tokens that the step has drawn.
TEST_F(Chain, DraftsBetweenStepsUnderPenalties) {
  std::vector<Submission> submissions = mixed();
  for (Submission& submission : submissions) submission.sampling.frequency_penalty = 0.4;
  const std::vector<Answer> expected = run(mini_, cold(8), submissions);
  const auto fed = fed_;
  expect_alike(run(device_, cold(8), submissions), expected);
  EXPECT_EQ(fed_, fed);
  EXPECT_EQ(rounds_, 0);
}

TEST_F(Chain, LeavesTheRowsOfAFreshRun) {
  const std::vector<Submission> submissions = mixed();
  const std::vector<Answer> expected = run(mini_, cold(0), submissions);
  for (const std::int64_t depth : {1, 3, 8}) {
    RowChecker runner(device_, cold(depth));
    for (std::size_t i = 0; i < submissions.size(); ++i)
      runner.expect(joined(submissions[i].prompt, expected[i].ids));
    StepLoop loop(runner, cold(depth));
    const std::vector<Answer> answers = run_loop(loop, submissions);
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << depth << " " << i;
    EXPECT_EQ(runner.fault(), "") << depth;
    EXPECT_GT(runner.checked_windows(), 10);
  }
}

// A stop in the middle of what was accepted: the heads have run on behind it, and nobody sees it.
TEST_F(Chain, EndsWhereTheAnswerEnds) {
  const Submission first = engine::greedy(random_ids(random_, 40), 24);
  const Answer whole = run(mini_, cold(0), {first})[0];
  for (std::size_t length = 9; length <= 17; ++length) {
    Submission stopped = first;
    std::size_t seen = 0;
    stopped.ends_answer = [&](std::int32_t) { return ++seen == length; };
    const EngineOptions options = drafting(engine::mini_options(), 8);
    RowChecker runner(device_, options);
    runner.expect(joined(first.prompt, whole.ids));
    StepLoop loop(runner, options);
    const Answer answer = run_loop(loop, {stopped})[0];
    EXPECT_EQ(answer.ids, std::vector<std::int32_t>(whole.ids.begin(), whole.ids.begin() + length));
    const Submission next =
        engine::greedy(joined(joined(first.prompt, answer.ids), random_ids(random_, 3)), 20);
    const Answer expected = run(mini_, cold(0), {next})[0];
    runner.expect(joined(next.prompt, expected.ids));
    const Answer actual = run_loop(loop, {next})[0];
    EXPECT_EQ(actual, expected) << length;
    EXPECT_EQ(runner.fault(), "") << length;
    EXPECT_GT(actual.outcome.usage.cached_tokens, 40);
  }
}

TEST_F(Chain, WaitsOnceARound) {
  EngineOptions options = cold(3);
  FedRows runner(
      *engine::DecoderRunner::create({&device_.config, &device_.weights, device_.backend.get()}, options,
                                     sampling::TokenMask(device_.config.valid_vocabulary)),
      fed_);
  StepLoop loop(runner, options);
  const auto channel = std::make_shared<engine::RequestChannel>();
  Submission submission = engine::greedy(random_ids(random_, 30), 60);
  submission.sampling.seed = 1;
  loop.submit(std::move(submission), channel, 90);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(*loop.step());  // the prompt, and its drafts between two steps
  for (int i = 0; i < 8; ++i) {
    const int before = recording_->waits;
    ASSERT_TRUE(*loop.step());
    EXPECT_EQ(recording_->waits - before, 1) << i;
  }
}

}  // namespace
}  // namespace inkstone::testing
