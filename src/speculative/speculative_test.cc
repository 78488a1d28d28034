// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "speculative/acceptance.h"
#include "speculative/cost_estimate.h"
#include "speculative/depth_choice.h"
#include "speculative/lookup_drafter.h"
#include "speculative/past_answers.h"

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
  EXPECT_GT(estimate.rate(1), 0.99);  // whenever depth 0 was right
  EXPECT_EQ(estimate.rate(2), 0);     // never, and what was taken for it before is forgotten
}

// Who never drafts deep has to believe that it may pay, or will not find out.
TEST(Acceptance, DepthsThatWereNotTriedAreTakenToBeLikeTheLastOneThatWas) {
  AcceptanceEstimate estimate;
  EXPECT_EQ(estimate.rate(5), estimate.rate(0));
  for (int i = 0; i < 100; ++i) estimate.observe(3, 3);
  EXPECT_EQ(estimate.rate(2), 1);
  EXPECT_EQ(estimate.rate(7), 1);
  for (int i = 0; i < 12; ++i) estimate.observe(4, 3);
  EXPECT_LT(estimate.rate(3), 0.25);  // soon convinced
  EXPECT_EQ(estimate.rate(7), estimate.rate(3));
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

RoundTokens tokens_after(std::int64_t accepted) { return expected_round_tokens(estimate_after(accepted)); }

// A round of verify + row * rows, and depth * (pass + pass_row * depth), of one sequence.
RoundCost straight_cost(double verify, double row, double pass, double pass_row = 0) {
  RoundCost cost;
  for (std::size_t depth = 0; depth < cost.verify_us.size(); ++depth) {
    const auto drafts = static_cast<double>(depth);
    cost.verify_us[depth] = verify + row * (1 + drafts);
    cost.draft_us[depth] = drafts * (pass + pass_row * drafts);
  }
  return cost;
}

TEST(DepthChoice, DraftsDeepWhereFixedCostDominates) {
  EXPECT_EQ(choose_depth(tokens_after(8), straight_cost(1000, 1, 5), 8), 8);
  EXPECT_EQ(choose_depth(tokens_after(8), straight_cost(1000, 1, 5), 3), 3);
}

TEST(DepthChoice, FallsToZeroWhereDraftsCostMoreThanTheyBring) {
  EXPECT_EQ(choose_depth(tokens_after(0), straight_cost(1000, 1, 5), 8), 0);
  // Rows cost as much as tokens bring, and the passes come on top.
  EXPECT_EQ(choose_depth(tokens_after(8), straight_cost(0, 100, 50), 8), 0);
}

TEST(DepthChoice, StopsAtTheDepthThatIsAlwaysRejected) {
  EXPECT_EQ(choose_depth(tokens_after(3), straight_cost(1000, 10, 10), 8), 3);
}

TEST(DepthChoice, DraftsLessDeepWhereTheRowsOfAPassCost) {
  const std::int64_t depth = choose_depth(tokens_after(8), straight_cost(1000, 1, 5, 40), 8);
  EXPECT_GT(depth, 1);
  EXPECT_LT(depth, 8);
}

TEST(CostCurve, FirstTimesThatTakeLongDoNotCount) {
  CostCurve curve(3);
  for (const double us : {3000.0, 4000.0}) curve.add(5, us);
  EXPECT_EQ(curve.at(5), 0);
  for (const double us : {260.0, 264.0, 262.0}) curve.add(5, us);
  EXPECT_NEAR(curve.at(5), 261, 2);
}

TEST(CostCurve, RecoversALine) {
  CostCurve curve(3);
  EXPECT_EQ(curve.at(4), 0);
  for (int i = 0; i < 300; ++i) curve.add(1 + i % 9, 300 + 20 * (1 + i % 9));
  for (const int rows : {1, 5, 9}) EXPECT_NEAR(curve.at(rows), 300 + 20 * rows, 2);
  EXPECT_NEAR(curve.at(12), 540, 6);
}

TEST(CostCurve, FollowsABendThatItHasSeen) {
  CostCurve curve(3);
  const std::vector<double> us = {0, 100, 110, 120, 300, 310, 320};
  for (int i = 0; i < 600; ++i) curve.add(1 + i % 6, us[static_cast<std::size_t>(1 + i % 6)]);
  for (std::size_t rows = 1; rows <= 6; ++rows)
    EXPECT_NEAR(curve.at(static_cast<double>(rows)), us[rows], 0.12 * us[rows]) << rows;
}

// While a run visits one number only, noise must not tilt the line, nor a slower machine make other numbers
// look cheap.
TEST(CostCurve, KeepsWhatItKnowsOfNumbersThatAreNoLongerVisited) {
  CostCurve curve(3);
  for (int i = 0; i < 40; ++i)
    for (int rows = 1; rows <= 9; ++rows) curve.add(rows, 200 + 100 * rows);
  const double before = curve.at(2) / curve.at(9);
  for (int i = 0; i < 500; ++i) curve.add(9, 2200 + 20 * (i % 7));  // the machine is twice as slow
  EXPECT_NEAR(curve.at(9), 2260, 100);
  EXPECT_NEAR(curve.at(2) / curve.at(9), before, 0.35 * before);  // 500 rounds ago, so doubted
}

TEST(CostCurve, ForgetsADisturbedRound) {
  CostCurve curve(3);
  for (int i = 0; i < 5; ++i)
    for (int rows = 1; rows <= 9; ++rows) curve.add(rows, i == 0 && rows == 2 ? 9000 : 200 + 100 * rows);
  curve.add(5, 20000);
  EXPECT_NEAR(curve.at(2), 400, 60);
  EXPECT_NEAR(curve.at(5), 700, 80);
}

TEST(CostCurve, TakesRowsToCostBeforeOthersWereSeen) {
  CostCurve curve(3);
  for (int i = 0; i < 4; ++i) curve.add(8, 80);
  EXPECT_NEAR(curve.at(8), 80, 1e-9);
  EXPECT_NEAR(curve.at(2), 20, 1e-9);
}

TEST(CostEstimate, SharesTheFixedCostAmongTheSequencesOfAStep) {
  CostEstimate estimate;
  for (int i = 0; i < 2000; ++i) {
    const auto rows = static_cast<double>(1 + i % 16);
    estimate.observe({.trunk_rows = 1 + i % 16,
                      .verify_us = 320 + 10 * rows,
                      .passes = 1,
                      .sequence_depths = 1 + i % 16,
                      .draft_us = 64 + rows});
  }
  EXPECT_EQ(estimate.rounds(), 2000);
  const RoundCost alone = estimate.cost(1);
  EXPECT_NEAR(alone.verify_us[3], 360, 5);
  EXPECT_NEAR(alone.draft_us[3], 3 * 67, 5);
  EXPECT_EQ(alone.draft_us[0], 0);
  const RoundCost shared = estimate.cost(32);
  EXPECT_NEAR(shared.verify_us[3], 10 + 40, 3);
  EXPECT_NEAR(shared.draft_us[3], 3 * (2 + 3), 1);
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

std::vector<DraftedToken> answer_of(const std::vector<std::array<std::int64_t, 3>>& rounds) {
  AnswerDrafts answer;
  for (const auto& [drafted, right, emitted] : rounds) answer.add_round(drafted, right, emitted);
  return {answer.tokens().begin(), answer.tokens().end()};
}

// All drafts right, four a round; the last round is cut by the end.
TEST(PastAnswers, CountTheRoundsThatAnAnswerTakes) {
  const AcceptanceEstimate estimate = estimate_after(8);
  const auto answer = answer_of({{4, 4, 5}, {4, 4, 5}});
  EXPECT_EQ(expected_rounds(answer, estimate, 0), 10);
  EXPECT_EQ(expected_rounds(answer, estimate, 3), 3);
  EXPECT_EQ(expected_rounds(answer, estimate, 4), 2);
  EXPECT_EQ(expected_rounds(answer, estimate, 6), 2);
  EXPECT_EQ(expected_rounds(answer_of({{4, 4, 5}, {0, 0, 1}}), estimate, 4), 2);
  EXPECT_EQ(expected_rounds(answer_of({}), estimate, 4), 0);
}

// Whatever the rates say: rounds of one depth are known for that depth.
TEST(PastAnswers, KnowWhatTheirOwnDepthTook) {
  const AcceptanceEstimate estimate = estimate_after(2);
  EXPECT_EQ(expected_rounds(answer_of({{3, 3, 4}, {3, 0, 1}, {3, 1, 2}, {3, 2, 2}}), estimate, 3), 4);
  EXPECT_EQ(expected_rounds(answer_of({{1, 0, 1}, {1, 0, 1}, {1, 1, 2}, {1, 0, 1}}), estimate, 1), 4);
}

// The third token was hard for the third draft.
TEST(PastAnswers, KeepHardTokensForOtherDepths) {
  const AcceptanceEstimate estimate = estimate_after(8);
  const auto answer = answer_of({{3, 2, 3}, {3, 3, 3}});
  EXPECT_EQ(expected_rounds(answer, estimate, 8), 2);  // for the third of eight as well
  EXPECT_EQ(expected_rounds(answer, estimate, 2), 2);  // two drafts come to it without one
  // One draft: two tokens, then the hard one is drafted first. Right in a third of the cases, it leaves one
  // round, else two.
  EXPECT_NEAR(expected_rounds(answer, estimate, 1), 2 + 1.0 / 3 + 2 * 2.0 / 3, 1e-9);
}

TEST(PastAnswers, MakeDepthsThatFillTheLastRoundPay) {
  const AcceptanceEstimate estimate = estimate_after(8);
  const RoundTokens by_rates = expected_round_tokens(estimate);
  PastAnswers answers;
  EXPECT_EQ(answers.corrected(by_rates), by_rates);
  for (int i = 0; i < 3; ++i) answers.observe(answer_of({{8, 8, 9}, {8, 1, 1}}), estimate);
  const RoundTokens tokens = answers.corrected(by_rates);
  EXPECT_NEAR(tokens[0], 1, 1e-9);
  EXPECT_NEAR(tokens[4], 5, 0.01);
  EXPECT_NEAR(tokens[6], 5, 0.01);  // two rounds as well
  EXPECT_EQ(choose_depth(by_rates, straight_cost(1000, 20, 60), 7), 7);
  EXPECT_EQ(choose_depth(tokens, straight_cost(1000, 20, 60), 7), 4);
  // Long ones: rates are right again, but for one round that may be cut.
  const std::vector<std::array<std::int64_t, 3>> rounds(700, {8, 8, 9});
  for (int i = 0; i < 64; ++i) answers.observe(answer_of(rounds), estimate);
  for (std::size_t depth = 0; depth < tokens.size(); ++depth)
    EXPECT_NEAR(answers.corrected(by_rates)[depth] / by_rates[depth], 1,
                static_cast<double>(depth) / AnswerDrafts::kLongest + 1e-9);
}

}  // namespace
}  // namespace inkstone::speculative
