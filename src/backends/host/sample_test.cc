// SPDX-License-Identifier: Apache-2.0
#include "backends/host/sample.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/support/sample_rig.h"

namespace inkstone::host {
namespace {

using ops::SampleFault;
using ops::SampleRules;
using test::SampleRig;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void run(SampleRig& rig, ThreadPool* pool = nullptr) {
  const std::int64_t parallel = pool == nullptr ? 1 : pool->num_threads();
  sample(rig.arguments(sample_workspace_bytes(parallel, rig.num_valid)), pool);
}

// `steps` > 0 rounds to that many steps per unit, so that ties are common.
void fill(SampleRig& rig, unsigned seed, float spread, float steps = 0) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  for (float& logit : rig.logits) {
    logit = normal(random);
    if (steps > 0) logit = std::round(logit * steps) / steps;
  }
}

std::vector<float> valid_logits(const SampleRig& rig, std::int64_t row) {
  const auto begin = rig.logits.begin() + row * rig.width;
  return {begin, begin + rig.num_valid};
}

TEST(Sample, GreedyTakesTheLowestIdAmongTheLargest) {
  SampleRig rig(1, 300);
  rig.rules[0].temperature = 0;
  rig.logit(0, 200) = rig.logit(0, 77) = rig.logit(0, 299) = 5;
  run(rig);
  EXPECT_EQ(rig.ids[0], 77);
  EXPECT_EQ(rig.faults[0], 0);
}

TEST(Sample, EqualsTheNaiveContractUnderEveryCombinationOfFilters) {
  constexpr std::int64_t kRows = 24;
  for (const std::int64_t vocabulary : {1, 3, 50, 1001}) {
    for (const int top_k : {0, 1, 5, 40, 2000}) {
      for (const float top_p : {1.0F, 0.999F, 0.7F, 0.1F, 0.0F}) {
        for (const float min_p : {0.0F, 0.02F, 0.5F, 1.0F}) {
          SampleRig rig(kRows, vocabulary);
          fill(rig, static_cast<unsigned>(vocabulary + top_k), 2, top_k % 2 == 0 ? 4.0F : 0.0F);
          for (std::int64_t row = 0; row < kRows; ++row) {
            rig.rules[static_cast<std::size_t>(row)] = {.seed = 9,
                                                        .temperature = row % 3 == 0 ? 0.6F : 1.3F,
                                                        .top_k = top_k,
                                                        .top_p = top_p,
                                                        .min_p = min_p};
            rig.positions[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(row);
          }
          run(rig);
          for (std::size_t row = 0; row < kRows; ++row) {
            const auto expected = test::naive_draw(valid_logits(rig, static_cast<std::int64_t>(row)),
                                                   rig.rules[row], rig.positions[row]);
            ASSERT_EQ(rig.ids[row], expected)
                << vocabulary << " " << top_k << " " << top_p << " " << min_p << " " << row;
          }
        }
      }
    }
  }
}

// Every kept token is drawn at some position, and nothing else: the set itself, not only one winner.
TEST(Sample, DrawsExactlyTheKeptSet) {
  constexpr std::int64_t kRows = 4000;
  for (const SampleRules& rules :
       {SampleRules{.top_k = 6}, SampleRules{.top_p = 0.8F}, SampleRules{.min_p = 0.2F},
        SampleRules{.top_k = 9, .top_p = 0.9F, .min_p = 0.15F}}) {
    SampleRig rig(1, 30);
    fill(rig, 3, 1, 2);
    const std::vector<float> logits = rig.logits;
    SampleRig many(kRows, 30);
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::ranges::copy(logits, &many.logit(row, 0));
      many.rules[static_cast<std::size_t>(row)] = rules;
      many.positions[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(row);
    }
    run(many);
    std::set<std::int32_t> expected;
    for (const test::NaiveCandidate& candidate : test::naive_kept(logits, rules))
      expected.insert(candidate.id);
    EXPECT_EQ(std::set<std::int32_t>(many.ids.begin(), many.ids.end()), expected);
  }
}

TEST(Sample, LargeVocabulariesEqualTheNaiveContract) {
  for (const std::int64_t vocabulary : {8193, 10000, 200058}) {
    SampleRig rig(5, vocabulary, vocabulary + 966);
    fill(rig, 1, 3);
    rig.rules = {{}, {.top_p = 0.95F}, {.top_k = 50}, {.min_p = 0.01F}, {.temperature = 0}};
    run(rig);
    for (std::size_t row = 0; row < 5; ++row)
      EXPECT_EQ(rig.ids[row],
                test::naive_draw(valid_logits(rig, static_cast<std::int64_t>(row)), rig.rules[row], 0));
  }
}

// cases.md B14, B42: whatever the head says about rows that are no tokens.
TEST(Sample, NeverTouchesThePaddedVocabulary) {
  for (const std::int64_t vocabulary : {250, 8193, 10000, 200058}) {
    SampleRig rig(6, vocabulary, (vocabulary + 1023) / 1024 * 1024);
    fill(rig, 5, 1);
    for (std::int64_t row = 0; row < rig.num_rows; ++row)
      for (std::int64_t id = vocabulary; id < rig.width; ++id) rig.logit(row, id) = row == 5 ? kNaN : 60;
    rig.rules = {{.temperature = 0}, {}, {.top_k = 20}, {.top_p = 0.9F}, {.min_p = 0.1F}, {.temperature = 2}};
    for (SampleRules& rules : rig.rules) rules.num_top = 20;
    run(rig);
    for (std::size_t row = 0; row < rig.ids.size(); ++row) {
      EXPECT_EQ(rig.faults[row], 0);
      EXPECT_LT(rig.ids[row], vocabulary);
      EXPECT_GE(rig.ids[row], 0);
      EXPECT_GT(rig.logprobs[row], -40);
    }
    for (const std::int32_t id : rig.top_ids) EXPECT_TRUE(id >= 0 && id < vocabulary) << id;
  }
}

TEST(Sample, NeverDrawsOrListsForbiddenTokens) {
  SampleRig rig(4, 100);
  for (std::int64_t row = 0; row < 4; ++row)
    for (const std::int64_t id : {0, 31, 32, 99}) rig.logit(row, id) = 40;
  for (const std::int32_t id : {0, 31, 32, 99}) rig.forbid(id);
  rig.rules = {{.temperature = 0}, {}, {.top_k = 4}, {.top_p = 0.5F}};
  for (SampleRules& rules : rig.rules) rules.num_top = 20;
  run(rig);
  const std::set<std::int32_t> forbidden{0, 31, 32, 99};
  for (const std::int32_t id : rig.ids) EXPECT_FALSE(forbidden.contains(id));
  for (const std::int32_t id : rig.top_ids) EXPECT_FALSE(forbidden.contains(id));
}

TEST(Sample, AMaskOfItsOwnBindsOneRequestOnly) {
  SampleRig rig(2, 64);
  rig.rules = {{.temperature = 0, .num_top = 1, .mask = 1}, {.temperature = 0, .num_top = 1}};
  rig.logit(0, 40) = rig.logit(1, 40) = 9;
  rig.forbid(40, 1);
  run(rig);
  EXPECT_EQ(rig.ids, (std::vector<std::int32_t>{0, 40}));
  EXPECT_EQ(rig.top_ids[0], 40);  // log-probabilities are the model's
}

TEST(Sample, ADrawDependsOnItsRequestAlone) {
  constexpr std::int64_t kRows = 12;
  SampleRig together(kRows, 500);
  fill(together, 8, 2);
  for (std::size_t row = 0; row < kRows; ++row) {
    together.rules[row] = {.seed = row % 4, .choice = static_cast<std::uint32_t>(row % 3), .num_top = 5};
    if (row % 2 == 0) together.rules[row].top_p = 0.9F;
    together.positions[row] = static_cast<std::int32_t>(row * 7);
  }
  run(together);
  for (std::size_t row = 0; row < kRows; ++row) {
    SampleRig alone(1, 500);
    std::ranges::copy(valid_logits(together, static_cast<std::int64_t>(row)), alone.logits.begin());
    alone.rules[0] = together.rules[row];
    alone.positions[0] = together.positions[row];
    run(alone);
    EXPECT_EQ(alone.ids[0], together.ids[row]);
    EXPECT_EQ(alone.logprobs[0], together.logprobs[row]);
    EXPECT_TRUE(
        std::equal(alone.top_logprobs.begin(), alone.top_logprobs.end(),
                   together.top_logprobs.begin() + static_cast<std::ptrdiff_t>(row * ops::kMaxTopLogprobs)));
  }
}

TEST(Sample, ThreadsDoNotChangeResults) {
  SampleRig one(33, 700);
  fill(one, 8, 2);
  for (std::size_t row = 0; row < 33; ++row) one.rules[row] = {.seed = row, .top_p = 0.9F, .num_top = 3};
  SampleRig many = one;
  run(one);
  ThreadPool pool(4);
  run(many, &pool);
  EXPECT_EQ(one.ids, many.ids);
  EXPECT_EQ(one.logprobs, many.logprobs);
  EXPECT_EQ(one.top_ids, many.top_ids);
}

// Equal logits: the winner is decided by noise alone, so 64 keys that differ in one part give many winners.
TEST(Sample, SeedChoiceAndPositionEachGiveOtherDraws) {
  for (const int part : {0, 1, 2}) {
    SampleRig rig(64, 1000);
    for (std::size_t row = 0; row < 64; ++row) {
      if (part == 0) rig.rules[row].seed = row;
      if (part == 1) rig.rules[row].choice = static_cast<std::uint32_t>(row);
      if (part == 2) rig.positions[row] = static_cast<std::int32_t>(row);
    }
    run(rig);
    EXPECT_GT(std::set<std::int32_t>(rig.ids.begin(), rig.ids.end()).size(), 50U) << part;
  }
}

TEST(Sample, TinyTemperaturesOfTheOperationAreGreedyToo) {
  SampleRig rig(6, 400);
  fill(rig, 4, 3);
  rig.rules = {{.temperature = 1e-5F},  {.temperature = 1e-10F}, {.temperature = 1e-30F},
               {.temperature = 1e-38F}, {.temperature = 1e-45F}, {.temperature = 1e-30F, .top_p = 0.9F}};
  run(rig);
  for (std::size_t row = 0; row < 6; ++row) {
    const std::vector<float> logits = valid_logits(rig, static_cast<std::int64_t>(row));
    EXPECT_EQ(rig.ids[row], std::ranges::max_element(logits) - logits.begin());
    EXPECT_EQ(rig.faults[row], 0);
  }
}

TEST(Sample, LogprobsAreThoseOfTheModelWhateverTheRules) {
  SampleRig rig(2, 200, 256);
  fill(rig, 6, 2, 8);
  std::ranges::copy_n(rig.logits.begin(), 256, rig.logits.begin() + 256);
  rig.list = {{.id = 3, .bias = 50}};
  rig.rules = {{.num_top = 20}, {.temperature = 0.3F, .top_k = 2, .num_top = 20, .adjust_end = 1}};
  run(rig);
  double sum = 0;
  const std::vector<float> logits = valid_logits(rig, 0);
  for (const float logit : logits) sum += std::exp(double{logit});
  std::vector<std::int32_t> order(200);
  for (std::int32_t id = 0; id < 200; ++id) order[static_cast<std::size_t>(id)] = id;
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  EXPECT_EQ(rig.ids[1], 3);
  for (std::size_t row = 0; row < 2; ++row) {
    EXPECT_NEAR(rig.logprobs[row], logits[static_cast<std::size_t>(rig.ids[row])] - std::log(sum), 1e-5);
    for (std::size_t i = 0; i < 20; ++i) {
      EXPECT_EQ(rig.top_ids[row * 20 + i], order[i]);
      EXPECT_NEAR(rig.top_logprobs[row * 20 + i], logits[static_cast<std::size_t>(order[i])] - std::log(sum),
                  1e-5);
    }
  }
}

TEST(Sample, ListsFewerThanAskedWhereThereAreFewer) {
  SampleRig rig(3, 4);
  rig.rules = {{.num_top = 20}, {.num_top = 2}, {}};
  run(rig);
  EXPECT_EQ(std::vector<std::int32_t>(rig.top_ids.begin(), rig.top_ids.begin() + 6),
            (std::vector<std::int32_t>{0, 1, 2, 3, -1, -1}));
  EXPECT_EQ(rig.top_ids[21], 1);
  EXPECT_EQ(rig.top_ids[22], -1);
  EXPECT_EQ(rig.top_ids[40], -1);
  EXPECT_EQ(rig.logprobs[2], 0);
  EXPECT_FLOAT_EQ(rig.logprobs[0], -std::log(4.0F));
}

TEST(Sample, LogitsThatAreNotFiniteAreAFaultOfTheirRowOnly) {
  SampleRig rig(7, 40);
  fill(rig, 2, 1);
  rig.logit(1, 39) = kNaN;
  rig.logit(2, 0) = kInfinity;
  rig.logit(3, 5) = -kInfinity;
  for (std::int64_t id = 0; id < 40; ++id) rig.logit(4, id) = -kInfinity;
  for (std::int64_t id = 0; id < 40; ++id) rig.logit(5, id) = kNaN;
  rig.logit(6, 7) = 3e38F;
  rig.list = {{.id = 7, .flags = ops::kSeenToken}};
  rig.rules[6] = {.repetition_penalty = 0.01F, .adjust_end = 1};
  for (SampleRules& rules : rig.rules) rules.num_top = 2;
  run(rig);
  const auto faults = [](std::initializer_list<SampleFault> list) {
    std::vector<std::int32_t> numbers;
    for (const SampleFault fault : list) numbers.push_back(static_cast<std::int32_t>(fault));
    return numbers;
  };
  EXPECT_EQ(rig.faults,
            faults({SampleFault::kNone, SampleFault::kNotFinite, SampleFault::kNotFinite, SampleFault::kNone,
                    SampleFault::kNoCandidate, SampleFault::kNotFinite, SampleFault::kNotFinite}));
  for (const std::size_t row : {1, 2, 4, 5, 6}) {
    EXPECT_EQ(rig.ids[row], 0);
    EXPECT_EQ(rig.logprobs[row], 0);
    EXPECT_EQ(rig.top_ids[row * 20], -1);
  }
}

TEST(Sample, PaddingRowsGiveIdZero) {
  SampleRig rig(2, 40);
  rig.logit(0, 9) = rig.logit(1, 9) = 50;
  rig.logit(0, 3) = kNaN;
  rig.rule_of_row[0] = -1;
  run(rig);
  EXPECT_EQ(rig.ids, (std::vector<std::int32_t>{0, 9}));
  EXPECT_EQ(rig.faults, (std::vector<std::int32_t>{0, 0}));
}

TEST(Sample, EverythingForbiddenIsAFault) {
  SampleRig rig(1, 40);
  for (std::int32_t id = 0; id < 40; ++id) rig.forbid(id);
  run(rig);
  EXPECT_EQ(rig.faults[0], static_cast<std::int32_t>(SampleFault::kNoCandidate));
}

TEST(Sample, EndTokensWaitForTheirPosition) {
  SampleRig rig(3, 40);
  for (std::int64_t row = 0; row < 3; ++row) rig.logit(row, 6) = 90;
  rig.list = {{.id = 6, .flags = ops::kEndToken}};
  for (SampleRules& rules : rig.rules) rules = {.min_position = 12, .adjust_end = 1};
  rig.positions = {11, 12, 13};
  run(rig);
  EXPECT_NE(rig.ids[0], 6);
  EXPECT_EQ(rig.ids[1], 6);
  EXPECT_EQ(rig.ids[2], 6);
}

// Three rows that verify two drafts draw what plain decoding would draw after the same tokens.
TEST(Sample, DraftsCountAsTokensOfTheAnswer) {
  const std::vector<std::int32_t> answer{4, 9, 4};  // at positions 10, 11, 12
  const std::vector<std::int32_t> drafts{9, 20};    // at 13, 14
  SampleRules rules{.repetition_penalty = 1.4F, .presence_penalty = 0.7F, .frequency_penalty = 0.9F};
  SampleRig verify(3, 30);
  fill(verify, 12, 1);
  verify.list = {{.id = 2, .flags = ops::kSeenToken},
                 {.id = 4, .generated = 2, .flags = ops::kSeenToken},
                 {.id = 7, .bias = 1.5F},
                 {.id = 9, .generated = 1, .flags = ops::kSeenToken}};
  rules.history_end = 13;
  rules.adjust_end = 4;
  verify.rules.assign(1, rules);
  verify.rule_of_row = {0, 0, 0};
  verify.positions = {13, 14, 15};
  verify.fed_tokens = {4, 9, 20};
  run(verify);
  bool differs = false;
  for (std::size_t row = 0; row < 3; ++row) {
    std::vector<float> adjusted = valid_logits(verify, static_cast<std::int64_t>(row));
    std::vector<std::int32_t> history = answer;
    history.insert(history.end(), drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(row));
    std::vector<float> without_drafts = adjusted;
    for (std::int32_t id = 0; id < 30; ++id) {
      const auto at = static_cast<std::size_t>(id);
      const auto before = static_cast<int>(std::ranges::count(answer, id));
      const auto with_drafts = static_cast<int>(std::ranges::count(history, id));
      const float bias = id == 7 ? 1.5F : 0.0F;
      without_drafts[at] = test::naive_adjusted(adjusted[at], rules, id == 2 || before > 0, before, bias);
      adjusted[at] = test::naive_adjusted(adjusted[at], rules, id == 2 || with_drafts > 0, with_drafts, bias);
    }
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      verify.rules[0].seed = rules.seed = seed;
      run(verify);
      ASSERT_EQ(verify.ids[row], test::naive_draw(adjusted, rules, verify.positions[row]));
      differs = differs || test::naive_draw(without_drafts, rules, verify.positions[row]) != verify.ids[row];
    }
  }
  EXPECT_TRUE(differs) << "a broken control, drafts not counted, must be visible";
}

TEST(Sample, DroppedPenaltiesWouldBeNoticed) {
  SampleRig rig(200, 50);
  fill(rig, 3, 1);
  rig.list = {{.id = 1, .generated = 3, .flags = ops::kSeenToken}, {.id = 8, .bias = 4}};
  for (std::size_t row = 0; row < 200; ++row)
    rig.rules[row] = {.seed = row, .repetition_penalty = 1.5F, .frequency_penalty = 1.5F, .adjust_end = 2};
  SampleRig broken = rig;
  broken.list = {{}, {}};
  broken.list[1].id = 1;
  run(rig);
  run(broken);
  EXPECT_NE(rig.ids, broken.ids);
  EXPECT_GT(std::ranges::count(rig.ids, 8), std::ranges::count(broken.ids, 8) + 30);
}

TEST(SampleDeathTest, RefusesShapesOutsideTheContract) {
  SampleRig rig(2, 40);
  ops::SampleArgs args = rig.arguments(sample_workspace_bytes(1, 40));
  args.num_valid = 41;
  EXPECT_DEATH(sample(args, nullptr), "num_valid");
  rig.list = {{.id = 40}};
  rig.rules[0].adjust_end = 1;
  EXPECT_DEATH(run(rig), "valid ids");
}

}  // namespace
}  // namespace inkstone::host
