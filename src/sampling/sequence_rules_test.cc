// SPDX-License-Identifier: Apache-2.0
#include "sampling/sequence_rules.h"

#include <gtest/gtest.h>

namespace inkstone::sampling {
namespace {

constexpr std::int32_t kPrompt[] = {5, 3, 5, 8};
constexpr std::int32_t kEnds[] = {6, 2};

struct Entry {
  std::int32_t id;
  std::int32_t generated;
  float bias;
  std::uint32_t flags;
  friend bool operator==(const Entry&, const Entry&) = default;
};

std::vector<Entry> entries(const SequenceRules& rules) {
  std::vector<Entry> list;
  for (const ops::TokenAdjustment& entry : rules.adjustments())
    list.push_back({entry.id, entry.generated, entry.bias, entry.flags});
  EXPECT_EQ(rules.rules().adjust_end - rules.rules().adjust_begin, static_cast<std::int32_t>(list.size()));
  return list;
}

TEST(SequenceRules, PlainRequestsCountNothing) {
  SequenceRules rules({.seed = 7, .choice = 2}, kEnds, kPrompt);
  rules.append(kPrompt);
  EXPECT_TRUE(entries(rules).empty());
  EXPECT_EQ(rules.rules().history_end, ops::kNoHistory);
  EXPECT_EQ(rules.rules().seed, 7U);
  EXPECT_EQ(rules.rules().choice, 2U);
  EXPECT_EQ(rules.rules().num_top, -1);
  EXPECT_EQ(rules.rules().top_k, 0);
}

// cases.md B41.
TEST(SequenceRules, TinyTemperaturesAreGreedy) {
  for (const double temperature : {0.0, 1e-30, 1e-10, 1e-4, 1e-3})
    EXPECT_EQ(SequenceRules({.temperature = temperature, .seed = 1}, kEnds, kPrompt).rules().temperature, 0);
  EXPECT_FLOAT_EQ(SequenceRules({.temperature = 0.01, .seed = 1}, kEnds, kPrompt).rules().temperature, 0.01F);
}

TEST(SequenceRules, RepetitionSeesPromptAndAnswer) {
  SequenceRules rules({.repetition_penalty = 1.1, .seed = 1}, kEnds, kPrompt);
  EXPECT_EQ(rules.rules().history_end, 4);
  EXPECT_EQ(entries(rules), (std::vector<Entry>{{3, 0, 0, 1}, {5, 0, 0, 1}, {8, 0, 0, 1}}));
  rules.append(std::vector<std::int32_t>{4, 5, 4});
  EXPECT_EQ(rules.rules().history_end, 7);
  EXPECT_EQ(entries(rules), (std::vector<Entry>{{3, 0, 0, 1}, {4, 2, 0, 1}, {5, 1, 0, 1}, {8, 0, 0, 1}}));
}

TEST(SequenceRules, PresenceAndFrequencySeeTheAnswerOnly) {
  SequenceRules rules({.frequency_penalty = 0.5, .seed = 1}, kEnds, kPrompt);
  EXPECT_TRUE(entries(rules).empty());
  rules.append(std::vector<std::int32_t>{5, 5});
  EXPECT_EQ(entries(rules), (std::vector<Entry>{{5, 2, 0, 1}}));
}

TEST(SequenceRules, BiasAndEndIdsShareTheList) {
  const SequenceRules rules({.logit_bias = {{9, 2}, {6, -1}}, .seed = 1, .min_tokens = 3}, kEnds, kPrompt);
  EXPECT_EQ(entries(rules),
            (std::vector<Entry>{{2, 0, 0, ops::kEndToken}, {6, 0, -1, ops::kEndToken}, {9, 0, 2, 0}}));
  EXPECT_EQ(rules.rules().min_position, 7);
}

TEST(SequenceRulesDeathTest, NeedsASeed) { EXPECT_DEATH(SequenceRules({}, kEnds, kPrompt), "seed"); }

}  // namespace
}  // namespace inkstone::sampling
