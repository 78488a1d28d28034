// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "speculative/acceptance.h"
#include "speculative/depth_choice.h"
#include "speculative/lookup_drafter.h"

namespace inkstone::speculative {
namespace {

TEST(Acceptance, CountsDraftsUpToTheFirstDifference) {
  EXPECT_EQ(num_accepted(std::vector<std::int32_t>{}, std::vector<std::int32_t>{5}), 0);
  EXPECT_EQ(num_accepted(std::vector{1, 2, 3}, std::vector{1, 2, 3, 4}), 3);
  EXPECT_EQ(num_accepted(std::vector{1, 2, 3}, std::vector{1, 9, 3, 4}), 1);
  EXPECT_EQ(num_accepted(std::vector{1, 2, 3}, std::vector{9, 2, 3, 4}), 0);
}

TEST(Acceptance, EstimateApproachesTheObservedShareOfItsDepth) {
  AcceptanceEstimate estimate;
  for (int i = 0; i < 200; ++i) estimate.observe(3, i % 2 == 0 ? 2 : 0);
  EXPECT_NEAR(estimate.rate(0), 0.5, 0.06);
  EXPECT_GT(estimate.rate(1), 0.99);                          // whenever depth 0 was right
  EXPECT_LT(estimate.rate(2), 0.02);                          // never
  EXPECT_EQ(estimate.rate(5), AcceptanceEstimate().rate(5));  // not tried
}

TEST(Acceptance, ExpectedTokensSumTheChanceOfReachingEachDepth) {
  AcceptanceEstimate estimate;
  for (int i = 0; i < 2000; ++i) estimate.observe(8, 8);
  EXPECT_NEAR(expected_tokens(estimate, 0), 1, 1e-12);
  EXPECT_NEAR(expected_tokens(estimate, 8), 9, 1e-6);
}

AcceptanceEstimate estimate_after(std::int64_t accepted) {
  AcceptanceEstimate estimate;
  for (int i = 0; i < 500; ++i) estimate.observe(kMaxDepth, accepted);
  return estimate;
}

TEST(DepthChoice, DraftsDeepWhereFixedCostDominates) {
  const AcceptanceEstimate all = estimate_after(8);
  EXPECT_EQ(choose_depth({&all, {.verify_base_us = 1000, .verify_row_us = 1, .draft_pass_us = 5}, 8, 1}), 8);
}

TEST(DepthChoice, FallsToZeroWhereDraftsCostMoreThanTheyBring) {
  const AcceptanceEstimate none = estimate_after(0);
  const AcceptanceEstimate all = estimate_after(8);
  EXPECT_EQ(choose_depth({&none, {.verify_base_us = 1000, .verify_row_us = 1, .draft_pass_us = 5}, 8, 1}), 0);
  // Rows cost as much as tokens bring, and the passes come on top.
  EXPECT_EQ(choose_depth({&all, {.verify_base_us = 0, .verify_row_us = 100, .draft_pass_us = 50}, 8, 1}), 0);
}

TEST(DepthChoice, StopsAtTheDepthThatIsAlwaysRejected) {
  const AcceptanceEstimate three = estimate_after(3);
  EXPECT_EQ(choose_depth({&three, {.verify_base_us = 1000, .verify_row_us = 10, .draft_pass_us = 10}, 8, 1}),
            3);
}

TEST(DepthChoice, SharesTheFixedCostAmongTheSequencesOfAStep) {
  const AcceptanceEstimate all = estimate_after(8);
  const RoundCost cost{.verify_base_us = 100, .verify_row_us = 10, .draft_pass_us = 40};
  EXPECT_GT(choose_depth({&all, cost, 8, 1}), 0);
  EXPECT_EQ(choose_depth({&all, {.verify_base_us = 100, .verify_row_us = 100, .draft_pass_us = 400}, 8, 64}),
            0);
}

TEST(CostEstimate, RecoversTheLineOfItsRounds) {
  CostEstimate estimate;
  EXPECT_FALSE(estimate.ready());
  for (int i = 0; i < 100; ++i) {
    const std::int64_t depth = i % 9;
    estimate.observe(1 + depth, 300.0 + 20.0 * static_cast<double>(1 + depth), depth,
                     70.0 * static_cast<double>(depth));
  }
  ASSERT_TRUE(estimate.ready());
  EXPECT_NEAR(estimate.cost().verify_base_us, 300, 1e-6);
  EXPECT_NEAR(estimate.cost().verify_row_us, 20, 1e-6);
  EXPECT_NEAR(estimate.cost().draft_pass_us, 70, 1e-6);
}

TEST(CostEstimate, IsNotReadyWhileAllRoundsAreAlike) {
  CostEstimate estimate;
  for (int i = 0; i < 100; ++i) estimate.observe(4, 100, 3, 30);
  EXPECT_FALSE(estimate.ready());
}

TEST(LookupDrafter, DraftsWhatFollowedTheLongestLatestOccurrence) {
  LookupDrafter drafter(8);
  const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 7, 2, 3, 5, 6, 2, 3};
  std::vector<Drafts> drafts;
  const std::vector<DraftRequest> requests = {{tokens, 3, {}}, {tokens, 0, {}}};
  ASSERT_TRUE(drafter.draft(requests, drafts).has_value());
  EXPECT_EQ(drafts[0], (Drafts{5, 6, 2}));
  EXPECT_TRUE(drafts[1].empty());
}

TEST(LookupDrafter, DraftsNothingWithoutAnOccurrenceOfTwoTokens) {
  LookupDrafter drafter(8);
  std::vector<Drafts> drafts;
  for (const std::vector<std::int32_t>& tokens :
       {std::vector<std::int32_t>{}, {1}, {1, 2, 3}, {3, 1, 2, 3}}) {
    const std::vector<DraftRequest> requests = {{tokens, 8, {}}};
    ASSERT_TRUE(drafter.draft(requests, drafts).has_value());
    EXPECT_TRUE(drafts[0].empty()) << tokens.size();
  }
}

}  // namespace
}  // namespace inkstone::speculative
