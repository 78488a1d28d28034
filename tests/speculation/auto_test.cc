// SPDX-License-Identifier: Apache-2.0
// `--speculate auto` against every fixed depth, in worlds where rows and passes cost what the test says.
#include <gtest/gtest.h>

#include <limits>

#include "tests/speculation/loop_rig.h"
#include "tests/speculation/traced_world.h"

namespace inkstone::testing {
namespace {

using engine::EngineOptions;
using engine::Submission;

class Auto : public ::testing::Test {
 protected:
  // All answers at this temperature, so many at a time, three times over behind one that is not counted.
  double us_of(const std::string& depth, const World& world) {
    WorldClock clock(world);
    EngineOptions options = engine::mini_options();
    options.max_sequences = sequences_;
    options.integrity_checks = false;
    options.reuse_prefixes = false;
    options.checkpoint_bytes = 0;
    options.swap_bytes = 0;
    options.clock_us = [&] { return clock.now_us(); };
    INK_CHECK(engine::set_speculation(depth, "heads", 8, options).has_value());
    TracedRunner runner(traces_, world, clock, options.draft_rows);
    runner.tells_first_runs = tells_first_runs_;
    engine::StepLoop loop(runner, options);
    std::vector<Submission> submissions;
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      if (traces_[i].temperature != temperature_) continue;
      submissions.push_back(engine::greedy(TracedRunner::prompt_of(i, traces_[i]), 200));
      submissions.back().end_ids = {TracedRunner::kEnd};
    }
    double learning_us = 0;
    for (int round = 0; round < 4; ++round) {
      run_loop(loop, submissions);
      if (round == 0) learning_us = clock.spent_us();
    }
    return clock.spent_us() - learning_us;
  }

  void expect_close(const World& world) {
    double best = std::numeric_limits<double>::infinity();
    for (int depth = 0; depth <= 8; ++depth) best = std::min(best, us_of(std::to_string(depth), world));
    EXPECT_LE(us_of("auto", world), (world.noise > 0 ? 1.08 : 1.05) * best);
  }
  // What auto does must not hang on one temperature or one number of sequences.
  void expect_close_everywhere(const World& world) {
    for (const double temperature : {0.0, 1.0}) {
      for (const std::int64_t sequences : {1, 4}) {
        temperature_ = temperature;
        sequences_ = sequences;
        SCOPED_TRACE(std::to_string(temperature) + ", " + std::to_string(sequences));
        expect_close(world);
      }
    }
  }

  std::vector<DraftTrace> traces_ = draft_traces();
  double temperature_ = 0;
  std::int64_t sequences_ = 1;
  bool tells_first_runs_ = true;
};

TEST_F(Auto, KeepsUpWhereDeepDraftsPay) {
  expect_close_everywhere({.verify_base_us = 1000, .verify_row_us = 10, .draft_pass_us = 20});
}

TEST_F(Auto, KeepsUpWhereSomeDraftsPay) {
  expect_close_everywhere({.verify_base_us = 1000, .verify_row_us = 150, .draft_pass_us = 150});
}

// As on a backend that computes every row anew.
TEST_F(Auto, KeepsUpWhereTheRowsOfAPassCost) {
  expect_close_everywhere(
      {.verify_base_us = 600, .verify_row_us = 400, .draft_pass_us = 100, .draft_row_us = 60});
}

// As the CPU backend was measured on a busy machine.
TEST_F(Auto, KeepsUpWhereTimesAreDisturbed) {
  expect_close_everywhere({.verify_base_us = 200,
                           .verify_row_us = 110,
                           .draft_pass_us = 45,
                           .draft_row_us = 8,
                           .noise = 0.2,
                           .spikes = 0.02,
                           .slowing = 2});
}

// Deep drafts pay in one mood, shallow ones in the other.
TEST_F(Auto, KeepsUpWhereTheMachineChangesItsSpeed) {
  expect_close_everywhere({.verify_base_us = 170,
                           .verify_row_us = 68,
                           .draft_pass_us = 35,
                           .draft_row_us = 4,
                           .noise = 0.1,
                           .mood_us = 200'000,
                           .slow_base = 1.25,
                           .slow_row = 2.2});
}

// As the mini on an H200: what is new runs eagerly, then it is recorded, and either takes as long as ten
// rounds.
TEST_F(Auto, KeepsUpWhereWhatIsNewTakesLong) {
  expect_close_everywhere({.verify_base_us = 240,
                           .verify_row_us = 7,
                           .draft_pass_us = 46,
                           .draft_row_us = 1,
                           .first_us = 5000,
                           .drafts_with_step = true});
}

// Broken control: the times of first runs are believed.
TEST_F(Auto, FallsBehindWhereFirstRunsAreTakenForOthers) {
  const World world{.verify_base_us = 240,
                    .verify_row_us = 7,
                    .draft_pass_us = 46,
                    .draft_row_us = 1,
                    .first_us = 5000,
                    .drafts_with_step = true};
  const double told = us_of("auto", world);
  tells_first_runs_ = false;
  EXPECT_GT(us_of("auto", world), 1.3 * told);
}

TEST_F(Auto, KeepsUpWhereNoDraftPays) {
  expect_close_everywhere({.verify_base_us = 100, .verify_row_us = 500, .draft_pass_us = 300});
}

// Of the tokens that one depth drafts so, how many another one drafts right: kOtherDepth of
// speculative/past_answers.cc.
double right_at_others(const std::vector<DraftTrace>& traces, bool right) {
  double all = 0;
  double others = 0;
  for (const DraftTrace& trace : traces) {
    const auto size = static_cast<std::int64_t>(trace.right.size());
    for (std::int64_t token = 0; token < size; ++token) {
      double known[2] = {0, 0};  // depths that got it wrong, right
      for (std::int64_t depth = 0; depth < 8 && depth <= token; ++depth) {
        const std::int64_t count = trace.right[static_cast<std::size_t>(token - depth)] - '0';
        if (count >= depth) ++known[count > depth ? 1 : 0];
      }
      all += known[right] * (known[0] + known[1] - 1);
      others += known[right] * (known[1] - (right ? 1 : 0));
    }
  }
  return others / all;
}

TEST(Traces, OneWrongDepthInThreeIsMadeUpForByAnother) {
  EXPECT_NEAR(right_at_others(draft_traces(), false), 0.348, 0.001);
  EXPECT_NEAR(right_at_others(draft_traces(), true), 0.991, 0.001);
}

}  // namespace
}  // namespace inkstone::testing
