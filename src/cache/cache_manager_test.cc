// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_manager.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace inkstone::cache {
namespace {

const ContentKey kRoot = root_key("test", "");

// The trunk's kinds of state and a fifth that nobody planned for.
model::StateSpec spec() {
  model::StateSpec spec;
  spec.groups = {{"full", 0, 4, ScalarType::kBF16, 0, 0},
                 {"sliding", 512, 8, ScalarType::kBF16, 576, 0},
                 {"conv", 4, 2, ScalarType::kF32, 16, 0},
                 {"made_up", 100, 3, ScalarType::kF32, 164, 0}};
  return spec;
}

std::vector<TokenKey> text(std::int64_t count, TokenKey first = 0) {
  std::vector<TokenKey> keys(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = first + i;
  return keys;
}

class CacheManagerTest : public ::testing::Test {
 protected:
  static constexpr CacheLimits kLimits{.pages = 8, .slots = 3, .host_windows = 4, .host_pages = 8};

  // A sequence that has computed all of `tokens`.
  SequenceId run(const std::vector<TokenKey>& tokens) {
    const SequenceId id = cache.match(kRoot, tokens, 600, true);
    EXPECT_TRUE(cache.admit(id, plan));
    const auto end = static_cast<std::int64_t>(tokens.size());
    EXPECT_TRUE(cache.reserve(id, end, plan));
    cache.wrote(id, end);
    return id;
  }
  // What a prompt would reuse now.
  std::int64_t hit(const std::vector<TokenKey>& tokens) {
    const SequenceId id = cache.match(kRoot, tokens, 600, true);
    const std::int64_t cached = cache.cached_tokens(id);
    cache.release(id);
    return cached;
  }
  std::int64_t rows_copied(std::int64_t group) const {
    std::int64_t rows = 0;
    for (const RowCopy& copy : plan) rows += copy.group == group ? copy.rows : 0;
    return rows;
  }
  void TearDown() override {
    const Status status = cache.check_invariants();
    EXPECT_TRUE(status) << (status ? "" : status.error().message);
  }

  CacheManager cache{spec(), kLimits};
  CopyPlan plan;
};

TEST_F(CacheManagerTest, ReusesAtMostAllButOneTokenOfThePrompt) {
  cache.finish(run(text(150)), plan);
  EXPECT_EQ(hit(text(150)), 149);
  EXPECT_EQ(hit(text(151)), 150);
  EXPECT_EQ(hit(text(200)), 150);
}

TEST_F(CacheManagerTest, FindsNothingWithoutACheckpoint) {
  const SequenceId id = run(text(150));
  EXPECT_EQ(hit(text(150)), 0) << "two full pages are published, but no window state";
  cache.release(id);
  EXPECT_EQ(hit(text(150)), 0);
}

TEST_F(CacheManagerTest, FindsNothingWhenAPageIsGone) {
  cache.finish(run(text(150)), plan);
  // Eight pages of other text push out the two that were kept.
  cache.release(run(text(8 * kPageTokens, 1000)));
  EXPECT_EQ(hit(text(150)), 0);
}

TEST_F(CacheManagerTest, RestoresEveryGroupOfAHit) {
  cache.finish(run(text(150)), plan);
  plan.clear();
  const SequenceId id = cache.match(kRoot, text(200), 600, true);
  ASSERT_TRUE(cache.admit(id, plan));
  EXPECT_EQ(rows_copied(0), 150 - 128) << "rows of the page that the checkpoint ends in";
  EXPECT_EQ(rows_copied(1), 150);
  EXPECT_EQ(rows_copied(2), 11);
  EXPECT_EQ(rows_copied(3), 107);
  EXPECT_EQ(cache.shared_pages(id), 2);
  cache.release(id);
}

TEST_F(CacheManagerTest, ASequenceNeverWritesIntoASharedPage) {
  cache.finish(run(text(150)), plan);
  const SequenceId first = run(text(151));
  const SequenceId second = run(text(155));
  EXPECT_EQ(cache.pages(first)[0], cache.pages(second)[0]);
  EXPECT_EQ(cache.pages(first)[1], cache.pages(second)[1]);
  EXPECT_NE(cache.pages(first)[2], cache.pages(second)[2]);
  cache.release(first);
  cache.release(second);
}

TEST_F(CacheManagerTest, HoldsAHitWhileOthersAllocate) {
  cache.finish(run(text(150)), plan);
  const SequenceId waiting = cache.match(kRoot, text(160), 600, true);
  ASSERT_EQ(cache.cached_tokens(waiting), 150);
  const SequenceId greedy = cache.match(kRoot, text(10, 500), 600, true);
  ASSERT_TRUE(cache.admit(greedy, plan));
  EXPECT_FALSE(cache.reserve(greedy, 7 * kPageTokens, plan)) << "two of the eight pages are held";
  EXPECT_TRUE(cache.reserve(greedy, 6 * kPageTokens, plan));
  cache.release(greedy);
  EXPECT_TRUE(cache.admit(waiting, plan));
  cache.release(waiting);
}

TEST_F(CacheManagerTest, PublishesVerifiedTokensOnly) {
  const SequenceId id = run(text(60));
  ASSERT_TRUE(cache.reserve(id, 69, plan));
  cache.wrote(id, 69);  // nine rows: one token and eight drafts
  const auto verified = text(2, 60);
  cache.roll_back(id, 62);
  cache.append(id, verified);
  cache.finish(id, plan);
  EXPECT_EQ(hit(text(100)), 62) << "what was verified, and not what was drafted";
}

TEST_F(CacheManagerTest, RollsBackWithoutCopies) {
  const SequenceId id = run(text(60));
  plan.clear();
  ASSERT_TRUE(cache.reserve(id, 64, plan));
  cache.wrote(id, 64);
  cache.roll_back(id, 61);
  EXPECT_TRUE(plan.empty());
  EXPECT_EQ(cache.valid_end(id), 61);
  cache.append(id, text(1, 60));
  cache.release(id);
}

// Cases B22: what the client was served is the key, whatever ran beyond it.
TEST_F(CacheManagerTest, ACheckpointEndsAtTheLastVerifiedRow) {
  const SequenceId id = run(text(70));
  cache.append(id, text(1, 70));  // the end token, drawn from row 69
  ASSERT_TRUE(cache.reserve(id, 72, plan));
  cache.wrote(id, 71);  // its own row
  cache.wrote(id, 72);  // and one behind it
  cache.finish(id, plan);
  EXPECT_EQ(hit(text(90)), 71);
}

TEST_F(CacheManagerTest, ATurnRenderedDifferentlyAtItsEndStillHits) {
  cache.finish(run(text(300)), plan);
  for (const std::int64_t same : {300, 296, 292}) {
    auto turn = text(same);
    for (const TokenKey key : text(20, 9000)) turn.push_back(key);
    EXPECT_EQ(hit(turn), same);
  }
  auto early = text(291);
  early.push_back(9000);
  EXPECT_EQ(hit(early), 0) << "further back than the margin";
}

TEST_F(CacheManagerTest, SaltsDoNotShare) {
  cache.finish(run(text(150)), plan);
  const SequenceId id = cache.match(root_key("test", "tenant"), text(150), 600, true);
  EXPECT_EQ(cache.cached_tokens(id), 0);
  cache.release(id);
}

TEST_F(CacheManagerTest, SwapsOutAndInWithAllRows) {
  const SequenceId id = run(text(150));
  plan.clear();
  ASSERT_TRUE(cache.swap_out(id, plan));
  EXPECT_EQ(rows_copied(0), 150);
  EXPECT_EQ(rows_copied(2), 11);
  EXPECT_EQ(cache.available_pages(), 8);
  EXPECT_EQ(cache.available_slots(), 3);
  plan.clear();
  ASSERT_TRUE(cache.swap_in(id, plan));
  EXPECT_EQ(rows_copied(0), 150);
  EXPECT_EQ(rows_copied(3), 107);
  EXPECT_EQ(cache.valid_end(id), 150);
  cache.finish(id, plan);
  EXPECT_EQ(hit(text(200)), 150);
}

TEST_F(CacheManagerTest, RefusesASwapThatHostMemoryCannotTake) {
  const SequenceId first = run(text(5 * kPageTokens));
  const SequenceId second = run(text(3 * kPageTokens, 5000));
  ASSERT_TRUE(cache.swap_out(first, plan));
  ASSERT_TRUE(cache.swap_out(second, plan));
  const SequenceId third = run(text(10, 7000));
  EXPECT_FALSE(cache.swap_out(third, plan)) << "eight host pages are taken";
  for (const SequenceId id : {first, second, third}) cache.release(id);
}

TEST_F(CacheManagerTest, GivesEverythingBack) {
  for (int round = 0; round < 20; ++round) {
    const SequenceId id = run(text(100 + round, static_cast<TokenKey>(round * 1000)));
    cache.checkpoint(id, plan);
    cache.finish(id, plan);
    plan.clear();
  }
  cache.drop_reusable();
  EXPECT_EQ(cache.available_pages(), 8);
  EXPECT_EQ(cache.available_slots(), 3);
  EXPECT_EQ(cache.num_checkpoints(), 0);
}

// A head that looks ahead: rows of its page depend on tokens behind it.
TEST(CacheManagerLookahead, APageServesOnlyPrefixesThatGoOnAlike) {
  model::StateSpec heads = spec();
  heads.groups.push_back({"head", 0, 4, ScalarType::kBF16, 0, 8});
  CacheManager cache(heads, {.pages = 16, .slots = 4, .host_windows = 4, .host_pages = 16});
  CopyPlan plan;
  const auto run = [&](const std::vector<TokenKey>& tokens) {
    const SequenceId id = cache.match(kRoot, tokens, 600, true);
    const std::int64_t cached = cache.cached_tokens(id);
    EXPECT_TRUE(cache.admit(id, plan));
    EXPECT_TRUE(cache.reserve(id, static_cast<std::int64_t>(tokens.size()), plan));
    cache.wrote(id, static_cast<std::int64_t>(tokens.size()));
    cache.finish(id, plan);
    return cached;
  };
  auto other = text(67);
  for (const TokenKey key : text(33, 4000)) other.push_back(key);
  EXPECT_EQ(run(text(100)), 0);
  EXPECT_EQ(run(other), 0) << "parts from the first within the look-ahead of page 0";
  EXPECT_EQ(run(other), 99);
  EXPECT_EQ(run(text(100)), 99);
  EXPECT_TRUE(cache.check_invariants());
}

}  // namespace
}  // namespace inkstone::cache
