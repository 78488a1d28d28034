// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace inkstone::scheduler {
namespace {

constexpr Limits kLimits{.token_budget = 256, .max_chunk_tokens = 256, .answer_reserve_tokens = 0};
constexpr Capacity kPlenty{.pages = 1000, .slots = 8, .host_windows = 8, .host_pages = 1000};

SequenceView decoding(std::int64_t position, std::int64_t admission) {
  SequenceView view;
  view.phase = Phase::kRunning;
  view.position = position;
  view.length = position + 1;
  view.prompt_end = 1;
  view.most_tokens = 10000;
  view.admission = admission;
  view.pages_held = view.pages_private = (position + 63) / 64;
  return view;
}

SequenceView prompt(std::int64_t position, std::int64_t end, std::int64_t admission) {
  SequenceView view = decoding(position, admission);
  view.length = view.prompt_end = end;
  return view;
}

SequenceView waiting(std::int64_t tokens, std::int64_t arrival) {
  SequenceView view = prompt(0, tokens, 0);
  view.phase = Phase::kWaiting;
  view.arrival = arrival;
  view.pages_held = view.pages_private = 0;
  return view;
}

StepPlan plan(const std::vector<SequenceView>& views, const Capacity& capacity = kPlenty,
              const Limits& limits = kLimits) {
  std::vector<std::int32_t> running;
  std::vector<std::int32_t> order;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(views.size()); ++i)
    (views[static_cast<std::size_t>(i)].phase == Phase::kRunning ? running : order).push_back(i);
  std::ranges::sort(order, [&](auto a, auto b) {
    return admits_before(views[static_cast<std::size_t>(a)], views[static_cast<std::size_t>(b)]);
  });
  StepPlan plan;
  plan_step(views, running, order, capacity, limits, plan);
  return plan;
}

TEST(Scheduler, DecodesComeFirstAndPromptsTakeTheRest) {
  const StepPlan step = plan({prompt(0, 1000, 0), decoding(10, 1), decoding(20, 2)});
  ASSERT_EQ(step.rows.size(), 3U);
  EXPECT_EQ(step.rows[0].sequence, 1);
  EXPECT_EQ(step.rows[1].sequence, 2);
  EXPECT_EQ(step.rows[2].sequence, 0);
  EXPECT_EQ(step.rows[2].rows, 192) << "254 are left, and a chunk ends at a page";
  EXPECT_FALSE(step.rows[2].samples);
}

TEST(Scheduler, TheLastChunkEndsWhereThePromptDoes) {
  const StepPlan step = plan({prompt(64, 101, 0)});
  ASSERT_EQ(step.rows.size(), 1U);
  EXPECT_EQ(step.rows[0].rows, 37);
  EXPECT_TRUE(step.rows[0].samples);
}

TEST(Scheduler, AChunkStopsAtAWantedCheckpoint) {
  SequenceView view = prompt(0, 200, 0);
  view.next_cut = 77;
  EXPECT_EQ(plan({view}).rows.at(0).rows, 77);
}

TEST(Scheduler, SmallChunkLimitsNeedNoPages) {
  EXPECT_EQ(plan({prompt(3, 200, 0)}, kPlenty, {256, 5, 0}).rows.at(0).rows, 5);
}

TEST(Scheduler, DraftsCountAgainstTheBudget) {
  SequenceView view = decoding(10, 0);
  view.draft_rows = 8;
  const StepPlan step = plan({view, prompt(0, 500, 1)}, kPlenty, {73, 500, 0});
  EXPECT_EQ(step.rows.at(0).rows, 9);
  EXPECT_EQ(step.rows.at(1).rows, 64);
}

TEST(Scheduler, WithoutPagesTheLastAdmittedOfTheLowestPriorityGivesWay) {
  std::vector<SequenceView> views = {decoding(64, 0), decoding(64, 1), decoding(64, 2)};
  views[2].priority = 1;
  const StepPlan step = plan(views, {.pages = 1, .slots = 8, .host_windows = 8, .host_pages = 8});
  ASSERT_EQ(step.preempted.size(), 1U);
  EXPECT_EQ(step.preempted[0].sequence, 1);
  EXPECT_EQ(step.preempted[0].kind, Preemption::kSwap);
  EXPECT_EQ(step.rows.size(), 2U) << "its page and the free one are enough for the others";
}

TEST(Scheduler, RecomputesWhatHostMemoryCannotTake) {
  const StepPlan step = plan({decoding(640, 0), decoding(640, 1)},
                             {.pages = 0, .slots = 8, .host_windows = 8, .host_pages = 9});
  ASSERT_EQ(step.preempted.size(), 1U);
  EXPECT_EQ(step.preempted[0].kind, Preemption::kRecompute);
}

TEST(Scheduler, NeverPreemptsTheLastOne) {
  const StepPlan step = plan({decoding(64, 0)}, {.pages = 0, .slots = 8, .host_windows = 8, .host_pages = 8});
  EXPECT_TRUE(step.preempted.empty());
  EXPECT_TRUE(step.rows.empty());
}

TEST(Scheduler, AdmitsInOrderOfPriorityAndArrival) {
  std::vector<SequenceView> views = {waiting(10, 5), waiting(10, 3), waiting(10, 9)};
  views[2].priority = 1;
  const StepPlan step = plan(views);
  EXPECT_EQ(step.admitted, (std::vector<std::int32_t>{2, 1, 0}));
}

TEST(Scheduler, NobodyOvertakesTheFirstThatDoesNotFit) {
  const StepPlan step = plan({decoding(10, 0), waiting(700, 1), waiting(10, 2)},
                             {.pages = 8, .slots = 8, .host_windows = 0, .host_pages = 0});
  EXPECT_TRUE(step.admitted.empty());
}

TEST(Scheduler, AloneThePromptNeedsOnlyItsFirstChunk) {
  const StepPlan step = plan({waiting(700, 1)}, {.pages = 8, .slots = 8, .host_windows = 0, .host_pages = 0});
  EXPECT_EQ(step.admitted.size(), 1U);
}

TEST(Scheduler, KeepsRoomForTheAnswersOfThoseThatRun) {
  const Limits limits{256, 256, 128};
  const Capacity four{.pages = 4, .slots = 8, .host_windows = 0, .host_pages = 0};
  EXPECT_TRUE(plan({decoding(10, 0), waiting(60, 1)}, four, limits).admitted.empty());
  EXPECT_EQ(plan({decoding(10, 0), waiting(60, 1)},
                 {.pages = 5, .slots = 8, .host_windows = 0, .host_pages = 0}, limits)
                .admitted.size(),
            1U)
      << "two pages for the one that runs, three for the other";
}

TEST(Scheduler, TakesNothingFromOthersInAStepThatPreempted) {
  const StepPlan step = plan({decoding(64, 0), decoding(64, 1), waiting(10, 9)},
                             {.pages = 0, .slots = 8, .host_windows = 8, .host_pages = 8});
  EXPECT_EQ(step.preempted.size(), 1U);
  EXPECT_TRUE(step.admitted.empty());
}

TEST(Scheduler, ThePromptThatCannotAdvanceTakesPagesWhenNothingElseRuns) {
  SequenceView stuck = prompt(128, 400, 0);
  const StepPlan step =
      plan({stuck, prompt(128, 400, 1)}, {.pages = 0, .slots = 8, .host_windows = 8, .host_pages = 8});
  ASSERT_EQ(step.preempted.size(), 1U);
  EXPECT_EQ(step.preempted[0].sequence, 1);
  EXPECT_EQ(step.rows.at(0).sequence, 0);
}

TEST(Scheduler, IsAFunctionOfItsArguments) {
  const std::vector<SequenceView> views = {prompt(0, 1000, 0), decoding(10, 1), waiting(50, 2)};
  const StepPlan first = plan(views);
  const StepPlan second = plan(views);
  ASSERT_EQ(first.rows.size(), second.rows.size());
  for (std::size_t i = 0; i < first.rows.size(); ++i) EXPECT_EQ(first.rows[i].rows, second.rows[i].rows);
}

// Every prompt is computed in the end, whatever arrives behind it.
TEST(Scheduler, NobodyStarvesUnderConstantArrivals) {
  constexpr Limits kTight{.token_budget = 80, .max_chunk_tokens = 64, .answer_reserve_tokens = 0};
  std::vector<SequenceView> views;
  for (std::int64_t i = 0; i < 4; ++i) views.push_back(decoding(100, i));
  views.push_back(prompt(0, 640, 4));
  std::int64_t steps = 0;
  while (views[4].position < 640 && steps < 100) {
    std::vector<SequenceView> crowd = views;
    for (std::int64_t i = 0; i < 5; ++i) crowd.push_back(waiting(20, 100 + i));
    for (const PlannedRows& rows : plan(crowd, kPlenty, kTight).rows)
      if (rows.sequence == 4) views[4].position += rows.rows;
    ++steps;
  }
  EXPECT_EQ(steps, 10);
}

TEST(Admission, NamesTheNumbers) {
  EXPECT_EQ(*most_tokens({100, 20}, 1000, 640), 120);
  EXPECT_EQ(*most_tokens({100, -1}, 1000, 640), 640);
  const auto too_long = most_tokens({600, 100}, 1000, 640);
  ASSERT_FALSE(too_long);
  for (const char* part : {"600", "100", "700", "640", "cache"})
    EXPECT_NE(too_long.error().message.find(part), std::string::npos) << too_long.error().message;
  const auto context = most_tokens({1000, 1}, 1000, 6400);
  ASSERT_FALSE(context);
  EXPECT_NE(context.error().message.find("context"), std::string::npos) << context.error().message;
  EXPECT_EQ(context.error().kind, ErrorKind::kTooLarge);
}

TEST(Admission, LimitsLeaveRoomForPrompts) {
  EXPECT_TRUE(check({.token_budget = 72, .max_chunk_tokens = 64, .answer_reserve_tokens = 0}, 8, 1));
  EXPECT_FALSE(check({.token_budget = 71, .max_chunk_tokens = 64, .answer_reserve_tokens = 0}, 8, 1));
  EXPECT_FALSE(check({.token_budget = 72, .max_chunk_tokens = 0, .answer_reserve_tokens = 0}, 8, 1));
}

}  // namespace
}  // namespace inkstone::scheduler
