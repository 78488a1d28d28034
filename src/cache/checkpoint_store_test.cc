// SPDX-License-Identifier: Apache-2.0
#include "cache/checkpoint_store.h"

#include <gtest/gtest.h>

namespace inkstone::cache {
namespace {

const ContentKey kRoot = {3, 5};

StateLayout layout() {
  model::StateSpec spec;
  spec.groups = {{"full", 0, 1, ScalarType::kF32, 0, 0}, {"conv", 4, 1, ScalarType::kF32, 16, 0}};
  return StateLayout(spec);
}

std::vector<TokenKey> tokens(std::int64_t count, TokenKey last = 1) {
  std::vector<TokenKey> keys(static_cast<std::size_t>(count), 1);
  keys.back() = last;
  return keys;
}

void add(CheckpointStore& store, const std::vector<TokenKey>& tail, std::int64_t margin = 8) {
  const auto end = static_cast<std::int64_t>(tail.size());
  const HostPageId page = *store.pages.take();
  store.insert({kRoot, 0, {std::max<std::int64_t>(0, end - margin), end}, tail}, {}, *store.windows.take(),
               {&page, 1});
}

TEST(CheckpointStore, ServesCutsOfItsMarginOnly) {
  CheckpointStore store({1, 2, 2});
  add(store, tokens(20));
  const auto prompt = tokens(40);
  EXPECT_EQ(store.find(kRoot, prompt, 39)->tail_tokens, 20);
  EXPECT_EQ(store.find(kRoot, prompt, 12)->tail_tokens, 12);
  EXPECT_FALSE(store.find(kRoot, prompt, 11)) << "nine tokens before its end";
  EXPECT_FALSE(store.find({1, 1}, prompt, 39)) << "another prefix";
}

TEST(CheckpointStore, CutsWhereThePromptsPart) {
  CheckpointStore store({1, 2, 2});
  add(store, tokens(20));
  EXPECT_EQ(store.find(kRoot, tokens(15, 9), 30)->tail_tokens, 14);
  EXPECT_FALSE(store.find(kRoot, tokens(5, 9), 30));
}

TEST(CheckpointStore, TakesTheDeepestOfSeveral) {
  CheckpointStore store({1, 4, 4});
  add(store, tokens(10));
  add(store, tokens(30));
  add(store, tokens(20));
  EXPECT_EQ(store.find(kRoot, tokens(28), 27)->tail_tokens, 27);
  EXPECT_EQ(store.find(kRoot, tokens(21), 20)->tail_tokens, 20);
}

TEST(CheckpointStore, ForgetsTheLeastRecentlyUsedAndNeverAPinnedOne) {
  CheckpointStore store({1, 3, 3});
  for (const std::int64_t length : {10, 20, 30}) add(store, tokens(length));
  EXPECT_TRUE(store.touch({kRoot, 0, {}, tokens(10)}));
  const CheckpointId pinned = store.find(kRoot, tokens(20), 20)->checkpoint;
  store.pin(pinned);
  ASSERT_TRUE(store.make_room(2, 2));
  EXPECT_FALSE(store.touch({kRoot, 0, {}, tokens(30)}));
  EXPECT_FALSE(store.touch({kRoot, 0, {}, tokens(10)}));
  EXPECT_TRUE(store.touch({kRoot, 0, {}, tokens(20)}));
  EXPECT_FALSE(store.make_room(3, 3)) << "the pinned one stays";
  store.unpin(pinned);
  EXPECT_TRUE(store.make_room(3, 3));
  EXPECT_TRUE(store.check(0, 0, 0));
}

TEST(CheckpointStore, MovesTheOldestResidentToHostMemoryWhenSlotsRunOut) {
  CheckpointStore store({1, 1, 1});
  const HostPageId page = *store.pages.take();
  store.insert({kRoot, 0, {12, 20}, tokens(20)}, *store.slots.take(), {}, {&page, 1});
  EXPECT_EQ(store.available_slots(), 1);
  CopyPlan plan;
  ASSERT_TRUE(store.take_slot(layout(), plan));
  ASSERT_EQ(plan.size(), 2U) << "rows 9..19 cross the seam of a ring of 16";
  EXPECT_EQ(plan[0].rows + plan[1].rows, 11);
  EXPECT_EQ(plan[1].to.row + plan[1].rows, 11) << "the last row of the block is that of the last position";
  EXPECT_TRUE(store.find(kRoot, tokens(20), 19));
  EXPECT_EQ(store.available_slots(), 0);
  EXPECT_TRUE(store.check(1, 0, 0));
}

}  // namespace
}  // namespace inkstone::cache
