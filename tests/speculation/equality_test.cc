// SPDX-License-Identifier: Apache-2.0
// Ids and log-probabilities with drafts are those without, for recorded conversations and for sampled answers
// under every rule. One source, two lengths.
#include <gtest/gtest.h>

#include "tests/speculation/loop_rig.h"
#include "tests/speculation/prompts.h"

namespace inkstone::testing {
namespace {

using engine::Answer;
using engine::EngineOptions;
using engine::Submission;

#ifdef INKSTONE_LONG_SPECULATION
constexpr std::size_t kRuns = 500;
constexpr std::size_t kPromptStep = 1;
const std::vector<std::string> kDepths = {"1", "3", "8", "auto"};
#else
constexpr std::size_t kRuns = 40;
constexpr std::size_t kPromptStep = 9;
const std::vector<std::string> kDepths = {"8", "auto"};
#endif

// Every reading is some way further on, never the same way: `auto` changes its mind all the time.
std::function<double()> restless_clock() {
  return [now = 0.0, state = std::uint32_t{1}]() mutable {
    state = state * 1664525U + 1013904223U;
    return now += 1.0 + static_cast<double>(state >> 20);
  };
}

class Equality : public ::testing::Test {
 protected:
  EngineOptions options(const std::string& depth, std::int64_t sequences) {
    EngineOptions options = engine::mini_options();
    options.max_sequences = sequences;
    options.cache_tokens = 1024 * 2;
    options.clock_us = restless_clock();
    const Status known = engine::set_speculation(depth, "heads", mini_.config.num_mtp(), options);
    INK_CHECK(known.has_value(), known ? "" : known.error().message);
    return options;
  }
  std::vector<Answer> run(const EngineOptions& options, const std::vector<Submission>& submissions) {
    return engine::run_together(*engine::mini_engine(mini_, options), submissions);
  }
  void expect_equal(const std::vector<Submission>& submissions, const std::vector<Answer>& expected,
                    std::int64_t sequences) {
    for (const std::string& depth : kDepths) {
      const std::vector<Answer> answers = run(options(depth, sequences), submissions);
      std::int64_t accepted = 0;
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_EQ(answers[i], expected[i]) << depth << " " << i << " of " << sequences;
        accepted += answers[i].outcome.speculation.accepted;
      }
      EXPECT_GT(accepted, static_cast<std::int64_t>(submissions.size())) << depth;
    }
  }

  MiniModel mini_;
};

// `ids` is a prompt; every run has other rules.
Submission sampled(const std::vector<std::int32_t>& ids, std::size_t run) {
  Submission submission;
  submission.prompt = ids;
  submission.end_ids = {kEndId};
  sampling::SamplingParams& params = submission.sampling;
  params.seed = 1000 + run;
  params.temperature = run % 2 == 0 ? 0.7 : 1.0;
  if (run % 3 == 1) params.top_k = 20;
  if (run % 3 == 2) params.top_p = 0.9;
  if (run % 4 == 1) params.repetition_penalty = 1.2;
  if (run % 4 == 2) params.frequency_penalty = 0.5;
  if (run % 4 == 3) params.presence_penalty = 0.6;
  if (run % 5 == 4) params.min_p = 0.05;
  if (run % 7 == 3) params.min_tokens = 6;
  if (run % 7 == 5) params.logit_bias = {{kEndId, 2.0}, {310, -1.5}};
  params.max_tokens = 8 + static_cast<std::int64_t>(run % 29);
  params.logprobs = run % 3 == 0 ? 20 : static_cast<std::int64_t>(run % 3) - 1;
  return submission;
}

TEST_F(Equality, OfRecordedConversations) {
  std::vector<Submission> submissions;
  std::vector<Answer> expected;
  const std::vector<Prompt> prompts = recorded_prompts(kPromptStep == 1 ? 900 : 120);
  for (std::size_t i = 0; i < prompts.size(); i += kPromptStep) {
    submissions.push_back(engine::greedy(prompts[i].ids, 100));
    submissions.back().end_ids = {kEndId};
    submissions.back().sampling.logprobs = static_cast<std::int64_t>(i % 3);
  }
  const std::vector<Answer> plain = run(options("0", 8), submissions);
  for (std::size_t i = 0; i < plain.size(); ++i)
    EXPECT_EQ(plain[i].ids, prompts[i * kPromptStep].answer) << i;
  for (const std::int64_t sequences : {1, 8}) expect_equal(submissions, plain, sequences);
}

TEST_F(Equality, OfSampledAnswers) {
  std::vector<Submission> submissions;
  const std::vector<Prompt> prompts = recorded_prompts(120);
  for (std::size_t run = 0; run < kRuns; ++run)
    submissions.push_back(sampled(prompts[run * 7 % prompts.size()].ids, run));
  const std::vector<Answer> plain = run(options("0", 8), submissions);
  for (const std::int64_t sequences : {1, 8}) expect_equal(submissions, plain, sequences);
}

// Cases B52: what one turn leaves in the cache must not reach the next one's text.
TEST_F(Equality, OfThirtyTurnsOfOneConversation) {
  EngineOptions cold = options("0", 1);
  cold.reuse_prefixes = false;
  MiniModel other;  // a backend is used by one engine at a time, which works on behind an outcome
  const auto plain = engine::mini_engine(other, cold);
  const auto drafting_engine = engine::mini_engine(mini_, options("8", 1));
  std::mt19937 random(52);
  std::vector<std::int32_t> history;
  std::int64_t reused = 0;
  for (int turn = 0; turn < 30; ++turn) {
    history = joined(history, random_ids(random, 1 + turn % 6));
    const Submission submission = engine::greedy(history, 8);
    const Answer answer = engine::run_together(*drafting_engine, {submission})[0];
    ASSERT_EQ(answer, engine::run_together(*plain, {submission})[0]) << turn;
    reused += answer.outcome.usage.cached_tokens > 0 ? 1 : 0;
    history = joined(history, answer.ids);
  }
  EXPECT_EQ(reused, 29);
}

// Cases B23.
TEST_F(Equality, OfEveryDepth) {
  std::mt19937 random(23);
  const Submission submission = engine::greedy(random_ids(random, 12), 12);
  const Answer plain = run(options("0", 1), {submission})[0];
  for (int depth = 1; depth <= 8; ++depth)
    EXPECT_EQ(run(options(std::to_string(depth), 1), {submission})[0], plain) << depth;
}

#ifdef INKSTONE_LONG_SPECULATION
TEST_F(Equality, OfLongConversations) {
  std::vector<Submission> submissions;
  std::vector<Prompt> prompts;
  for (Prompt& prompt : recorded_prompts(2048))
    if (prompt.ids.size() > 900) prompts.push_back(std::move(prompt));
  for (const Prompt& prompt : prompts) {
    submissions.push_back(engine::greedy(prompt.ids, 100));
    submissions.back().end_ids = {kEndId};
  }
  EngineOptions settings = options("8", 4);
  settings.max_context_tokens = 4096;
  settings.cache_tokens = 3 * 2048;
  const std::vector<Answer> answers = run(settings, submissions);
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].ids, prompts[i].answer) << i;
}
#endif

}  // namespace
}  // namespace inkstone::testing
