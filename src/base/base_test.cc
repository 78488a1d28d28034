// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace inkstone {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return invalid("odd");
  return value / 2;
}

Result<int> quarter(int value) { return INK_TRY(half(INK_TRY(half(value)))); }

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(quarter(8).value(), 2);
  ASSERT_FALSE(quarter(6).has_value());
  EXPECT_EQ(quarter(6).error().message, "odd");
}

TEST(CheckDeathTest, AFailedCheckNamesConditionAndDetail) {
  EXPECT_DEATH(INK_CHECK(1 == 2, "one is not two"), "check failed: 1 == 2: one is not two");
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const std::int64_t count : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
      pool.parallel_for(count, 3, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_LE(end - begin, 3);
        for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
      });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

}  // namespace
}  // namespace inkstone
