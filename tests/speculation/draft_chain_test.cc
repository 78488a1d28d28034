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
                          const std::vector<Submission>& submissions) {
    fed_.clear();
    auto runner = engine::DecoderRunner::create({&mini.config, &mini.weights, mini.backend.get()}, options,
                                                sampling::TokenMask(mini.config.valid_vocabulary));
    INK_CHECK(runner.has_value(), runner ? "" : runner.error().message);
    FedRows watched(std::move(*runner), fed_);
    StepLoop loop(watched, options);
    return run_loop(loop, submissions);
  }
  // Random words, behind which some drafts are right; every second is drawn at a temperature.
  std::vector<Submission> mixed(bool penalties) {
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
      if (penalties) params.frequency_penalty = 0.4;
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
};

TEST_F(Chain, DraftsWhatPassAfterPassDrafts) {
  for (const bool penalties : {false, true}) {
    const std::vector<Submission> submissions = mixed(penalties);
    for (const std::int64_t depth : {1, 3, 8}) {
      const std::vector<Answer> expected = run(mini_, cold(depth), submissions);
      const auto fed = fed_;
      for (const bool records : {true, false}) {
        EngineOptions options = cold(depth);
        options.record_steps = records;
        const int before = recording_->replays;
        expect_alike(run(device_, options, submissions), expected);
        EXPECT_EQ(fed_, fed) << depth << " " << records << " " << penalties;
        EXPECT_EQ(recording_->replays > before, records);
      }
    }
  }
}

TEST_F(Chain, LeavesTheRowsOfAFreshRun) {
  const std::vector<Submission> submissions = mixed(false);
  for (const std::int64_t depth : {1, 8}) {
    const std::vector<Answer> expected = run(mini_, cold(0), submissions);
    const EngineOptions options = cold(depth);
    RowChecker runner(device_, options);
    for (std::size_t i = 0; i < submissions.size(); ++i)
      runner.expect(joined(submissions[i].prompt, expected[i].ids));
    StepLoop loop(runner, options);
    const std::vector<Answer> answers = run_loop(loop, submissions);
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << depth << " " << i;
    EXPECT_EQ(runner.fault(), "") << depth;
    EXPECT_GT(runner.compared_rows(), 1000);
  }
}

}  // namespace
}  // namespace inkstone::testing
