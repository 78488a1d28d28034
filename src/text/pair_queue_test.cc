// SPDX-License-Identifier: Apache-2.0
#include "text/pair_queue.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>

namespace inkstone::text {
namespace {

TEST(PairQueue, GivesPairsByRankThenByPosition) {
  std::mt19937 random(9);
  PairQueue queue;
  std::multiset<std::pair<std::int32_t, std::uint32_t>> expected;
  for (int step = 0; step < 100000; ++step) {
    // Mostly ascending positions with some that come late, and spells in which more is taken than given.
    const unsigned tenths = step / 1000 % 2 == 0 ? 7 : 4;
    if (random() % 10 < tenths || expected.empty()) {
      const auto rank = static_cast<std::int32_t>(random() % 5);
      const auto at = static_cast<std::uint32_t>(random() % 8 == 0 ? random() % 100000 : step);
      queue.push({rank, at});
      expected.insert({rank, at});
      continue;
    }
    ASSERT_FALSE(queue.empty());
    const PairQueue::Pair pair = queue.pop();
    ASSERT_EQ(std::make_pair(pair.rank, pair.at), *expected.begin());
    expected.erase(expected.begin());
  }
  while (!queue.empty()) {
    const PairQueue::Pair pair = queue.pop();
    ASSERT_EQ(std::make_pair(pair.rank, pair.at), *expected.begin());
    expected.erase(expected.begin());
  }
  EXPECT_TRUE(expected.empty());
}

}  // namespace
}  // namespace inkstone::text
