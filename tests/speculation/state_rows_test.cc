// SPDX-License-Identifier: Apache-2.0
// After any history of accepted and rejected drafts all state rows, trunk and heads, are those of a fresh run
// over the same tokens, bit for bit.
#include <gtest/gtest.h>

#include <map>

#include "tests/speculation/loop_rig.h"
#include "tests/speculation/row_checker.h"

namespace inkstone::testing {
namespace {

using engine::Answer;
using engine::EngineOptions;
using engine::StepLoop;
using engine::Submission;

class StateRows : public ::testing::Test {
 protected:
  static EngineOptions cold() {
    EngineOptions options = engine::mini_options();
    options.reuse_prefixes = false;
    return options;
  }

  std::vector<Answer> plain(const std::vector<Submission>& submissions) {
    RowChecker runner(mini_, cold());
    StepLoop loop(runner, cold());
    return run_loop(loop, submissions);
  }
  std::vector<Answer> plain_alone(const std::vector<Submission>& submissions) {
    std::vector<Answer> answers;
    for (const Submission& submission : submissions) answers.push_back(plain({submission})[0]);
    return answers;
  }
  static std::vector<std::vector<std::int32_t>> texts(const std::vector<Submission>& submissions,
                                                      const std::vector<Answer>& answers) {
    std::vector<std::vector<std::int32_t>> all;
    for (std::size_t i = 0; i < answers.size(); ++i)
      all.push_back(joined(submissions[i].prompt, answers[i].ids));
    return all;
  }
  std::vector<Submission> mixed() {
    std::vector<Submission> submissions;
    for (const std::int64_t length : {1, 9, 40, 90})
      submissions.push_back(engine::greedy(random_ids(random_, length), 20 + length / 3));
    for (std::size_t i = 1; i < submissions.size(); i += 2) {
      submissions[i].sampling.temperature = 0.9;
      submissions[i].sampling.frequency_penalty = 0.4;
      submissions[i].sampling.seed = 77 + i;
    }
    return submissions;
  }

  MiniModel mini_;
  std::mt19937 random_{11};
};

TEST_F(StateRows, AreThoseOfAFreshRunForEveryForcedNumberOfAcceptedDrafts) {
  const Submission submission = engine::greedy(random_ids(random_, 21), 24);
  const Answer expected = plain({submission})[0];
  const auto text = joined(submission.prompt, expected.ids);
  for (const std::int64_t depth : {1, 3, 8}) {
    for (std::int64_t accepted = 0; accepted <= depth; ++accepted) {
      EngineOptions options = drafting(cold(), depth);
      options.draft_override = ForcedDrafts{{text}, [&](std::size_t) { return accepted; }};
      RowChecker runner(mini_, options);
      runner.expect(text);
      StepLoop loop(runner, options);
      const Answer answer = run_loop(loop, {submission})[0];
      EXPECT_EQ(answer, expected) << depth << " " << accepted;
      EXPECT_EQ(runner.fault(), "") << depth << " " << accepted;
      EXPECT_GT(runner.compared_rows(), 1000);
      const engine::Speculation& counts = answer.outcome.speculation;
      EXPECT_EQ(counts.emitted, 23);
      for (std::int64_t i = 0; i < depth; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(counts.accepted_at[at], i < accepted ? counts.drafted_at[at] : 0);
      }
    }
  }
}

TEST_F(StateRows, AreThoseOfAFreshRunInABatchOfMixedHistories) {
  const std::vector<Submission> submissions = mixed();
  const std::vector<Answer> expected = plain_alone(submissions);
  for (const std::int64_t chunk : {7, 512}) {
    EngineOptions options = drafting(cold(), 8);
    options.max_chunk_tokens = chunk;
    options.draft_override = ForcedDrafts{texts(submissions, expected),
                                          [](std::size_t tokens) { return tokens * 2654435761U / 7 % 9; }};
    RowChecker runner(mini_, options);
    for (const auto& text : texts(submissions, expected)) runner.expect(text);
    StepLoop loop(runner, options);
    const std::vector<Answer> answers = run_loop(loop, submissions);
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << chunk << " " << i;
    EXPECT_EQ(runner.fault(), "") << chunk;
  }
}

TEST_F(StateRows, SurvivePreemptionBySwappingAndByRecomputing) {
  std::vector<Submission> submissions;
  for (const std::int64_t length : {50, 55, 60})
    submissions.push_back(engine::greedy(random_ids(random_, length), 40));
  const std::vector<Answer> expected = plain_alone(submissions);
  for (const bool swaps : {true, false}) {
    EngineOptions options = drafting(cold(), 8);
    options.cache_tokens = 3 * 64;  // each begins with a page and comes to need two
    options.answer_reserve_tokens = 0;
    if (!swaps) options.swap_bytes = options.checkpoint_bytes = 0;
    RowChecker runner(mini_, options);
    for (const auto& text : texts(submissions, expected)) runner.expect(text);
    StepLoop loop(runner, options);
    const std::vector<Answer> answers = run_loop(loop, submissions);
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i], expected[i]) << swaps << " " << i;
    EXPECT_EQ(runner.fault(), "") << swaps;
    EXPECT_GT(swaps ? loop.stats().swaps : loop.stats().recomputes, 0);
  }
}

// The next turn goes on with any token, or forks earlier; a page that it shares may have been written by
// somebody whose text went on differently.
TEST_F(StateRows, ServeAnyContinuationOfAReusedPrefix) {
  EngineOptions options = drafting(engine::mini_options(), 8);
  RowChecker runner(mini_, options);
  StepLoop loop(runner, options);
  const Submission first = engine::greedy(random_ids(random_, 150), 30);
  const Answer answer = plain({first})[0];
  const std::vector<std::int32_t> text = joined(first.prompt, answer.ids);
  runner.expect(text);
  EXPECT_EQ(run_loop(loop, {first})[0], answer);
  std::int64_t reused = 0;
  for (const std::int64_t kept : {180, 179, 176, 173, 150, 149, 145, 129, 66, 64}) {
    std::vector<std::int32_t> prompt(text.begin(), text.begin() + kept);
    const Submission next = engine::greedy(joined(prompt, random_ids(random_, 1 + kept % 5)), 12);
    const Answer expected = plain({next})[0];
    runner.expect(joined(next.prompt, expected.ids));
    const Answer actual = run_loop(loop, {next})[0];
    EXPECT_EQ(actual, expected) << kept;
    EXPECT_EQ(runner.fault(), "") << kept;
    reused += actual.outcome.usage.cached_tokens > 0 ? 1 : 0;
  }
  EXPECT_GE(reused, 6);
}

// Cases B22: what lies behind a stop in the middle of an accepted run is neither published nor kept.
TEST_F(StateRows, EndWhereTheAnswerEnds) {
  const Submission first = engine::greedy(random_ids(random_, 70), 30);
  const Answer whole = plain({first})[0];
  const auto text = joined(first.prompt, whole.ids);
  for (std::size_t length = 1; length <= 11; ++length) {
    Submission stopped = first;
    std::size_t seen = 0;
    stopped.ends_answer = [&](std::int32_t) { return ++seen == length; };
    EngineOptions options = drafting(engine::mini_options(), 8);
    const auto known = std::make_shared<std::vector<std::vector<std::int32_t>>>(1, text);
    options.draft_override = [known](auto tokens, std::int64_t depth, std::int32_t drawn) {
      return ForcedDrafts{*known, [](std::size_t) { return 8; }}(tokens, depth, drawn);
    };
    RowChecker runner(mini_, options);
    runner.expect(text);
    StepLoop loop(runner, options);
    const Answer answer = run_loop(loop, {stopped})[0];
    EXPECT_EQ(answer.ids, std::vector<std::int32_t>(whole.ids.begin(), whole.ids.begin() + length));
    EXPECT_EQ(answer.outcome.reason, engine::FinishReason::kStop);
    const Submission next =
        engine::greedy(joined(joined(first.prompt, answer.ids), random_ids(random_, 3)), 6);
    const Answer expected = plain({next})[0];
    EXPECT_EQ(runner.fault(), "");
    runner.expect(joined(next.prompt, expected.ids));
    known->push_back(joined(next.prompt, expected.ids));
    const Answer actual = run_loop(loop, {next})[0];
    EXPECT_EQ(actual, expected) << length;
    EXPECT_EQ(runner.fault(), "") << length;
    EXPECT_GE(actual.outcome.usage.cached_tokens, static_cast<std::int64_t>(70 + length) - 1) << length;
  }
}

// --- broken controls ---

class BrokenHeads : public StateRows {
 protected:
  BrokenHeads() {
    for (int i = 0; i < 3; ++i) submissions_.push_back(engine::greedy(random_ids(random_, 30), 60));
    expected_ = plain_alone(submissions_);
  }
  // The model's own drafts behind random words: some are right.
  engine::Speculation run(const std::function<void(RowChecker&)>& breaks, std::string& fault) {
    const EngineOptions options = drafting(cold(), 8);
    RowChecker runner(mini_, options);
    for (const auto& text : texts(submissions_, expected_)) runner.expect(text);
    breaks(runner);
    StepLoop loop(runner, options);
    for (std::size_t i = 0; i < submissions_.size(); ++i)
      EXPECT_EQ(run_loop(loop, {submissions_[i]})[0], expected_[i]) << "whatever the heads do";
    fault = runner.fault();
    return loop.stats().speculation;
  }

  std::vector<Submission> submissions_;
  std::vector<Answer> expected_;
};

TEST_F(BrokenHeads, AreNoticed) {
  std::string fault;
  const engine::Speculation sound = run([](RowChecker&) {}, fault);
  EXPECT_EQ(fault, "");

  std::int64_t written = 0;
  const engine::Speculation stale = run(
      [&](RowChecker& runner) {
        runner.tamper = [&](speculative::DraftRequest& request) {
          if (written < request.heads.end) request.heads.begin = std::max(request.heads.begin, written);
          written = request.heads.end;
        };
      },
      fault);
  EXPECT_NE(fault, "") << "rows that read rejected drafts were not run again";
  EXPECT_LT(stale.mean_accepted_length(), sound.mean_accepted_length());

  const engine::Speculation early =
      run([](RowChecker& runner) { runner.hidden_one_row_early = true; }, fault);
  EXPECT_NE(fault, "") << "trunk hidden rows were one row early";
  EXPECT_LT(early.mean_accepted_length(), 0.8 * sound.mean_accepted_length());
}

}  // namespace
}  // namespace inkstone::testing
