// SPDX-License-Identifier: Apache-2.0
#include "sampling/stop_rule.h"

#include <gtest/gtest.h>

namespace inkstone::sampling {
namespace {

const std::vector<std::int32_t> kEnds{200006, 199999};

TEST(StopRule, EndsAtAnyEndIdOfTheModel) {
  const StopRule rule({}, kEnds, 100);
  EXPECT_EQ(rule.after(200006, 1), StopReason::kEndToken);
  EXPECT_EQ(rule.after(199999, 7), StopReason::kEndToken);
  EXPECT_EQ(rule.after(200010, 7), std::nullopt);  // the end of a block is not the end of the turn
}

TEST(StopRule, EndsAtTheRequestsStopIds) {
  const StopRule rule({.stop_token_ids = {13}}, kEnds, 100);
  EXPECT_EQ(rule.after(13, 1), StopReason::kStopToken);
  EXPECT_EQ(rule.after(14, 1), std::nullopt);
}

TEST(StopRule, EndsAtMaxTokensButAnEndThereIsAnEnd) {
  const StopRule rule({}, kEnds, 3);
  EXPECT_EQ(rule.after(5, 2), std::nullopt);
  EXPECT_EQ(rule.after(5, 3), StopReason::kLength);
  EXPECT_EQ(rule.after(200006, 3), StopReason::kEndToken);
}

TEST(StopRule, IgnoringEosLeavesStopIdsAndLength) {
  const StopRule rule({.stop_token_ids = {13}, .ignore_eos = true}, kEnds, 3);
  EXPECT_EQ(rule.after(200006, 1), std::nullopt);
  EXPECT_EQ(rule.after(13, 1), StopReason::kStopToken);
  EXPECT_EQ(rule.after(200006, 3), StopReason::kLength);
  EXPECT_EQ(rule.ending_ids(), (std::vector<std::int32_t>{13}));
}

TEST(StopRule, NothingEndsWithinMinTokensButTheLength) {
  const StopRule rule({.min_tokens = 2, .stop_token_ids = {13}}, kEnds, 2);
  EXPECT_EQ(rule.after(200006, 1), std::nullopt);
  EXPECT_EQ(rule.after(13, 1), std::nullopt);
  EXPECT_EQ(rule.after(13, 2), StopReason::kLength);
  EXPECT_EQ(StopRule({.min_tokens = 2}, kEnds, 9).after(200006, 3), StopReason::kEndToken);
  EXPECT_EQ(rule.ending_ids(), (std::vector<std::int32_t>{200006, 199999, 13}));
}

}  // namespace
}  // namespace inkstone::sampling
