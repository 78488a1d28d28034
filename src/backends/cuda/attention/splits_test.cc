// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/attention/splits.h"

#include <gtest/gtest.h>

namespace inkstone::cuda {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 20;

TEST(SplitRange, CoversAllKeysOfARowWithoutAWindow) {
  for (std::int64_t position : {0, 1, 127, 128, 8191, 16383, 16384, 16385, 65535, 1048575}) {
    const SplitRange range = split_range(position, 0);
    EXPECT_EQ(range.first, 0);
    EXPECT_LE(std::int64_t{range.last} * range.size, position);
    EXPECT_GT((std::int64_t{range.last} + 1) * range.size, position);
    EXPECT_LT(range.last, kMaxSplits);
  }
}

TEST(SplitRange, CutsAtMultiplesOfTheConstantOnly) {
  for (std::int64_t position = 0; position < kLongest; position += 997) {
    EXPECT_EQ(split_keys(position, 0) % kSplitKeys, 0);
    EXPECT_EQ(split_keys(position, 512), kSplitKeys);
  }
}

TEST(SplitRange, BeginsAWindowInTheSplitOfItsOldestKey) {
  for (std::int64_t position = 0; position < 4000; ++position) {
    const SplitRange range = split_range(position, 512);
    EXPECT_EQ(range.first, (position < 512 ? 0 : position - 511) / kSplitKeys);
    EXPECT_EQ(range.last, position / kSplitKeys);
    EXPECT_LT(range.last - range.first, max_splits(kLongest, 512, 1));
  }
}

// Rows of one verify step share blocks: at most two sizes may meet in one.
TEST(SplitKeys, DoublesAtMostOnceWithinSixteenRows) {
  for (std::int64_t position = 0; position + 15 < kLongest; ++position) {
    ASSERT_LE(split_keys(position + 15, 0), 2 * split_keys(position, 0));
  }
}

TEST(MaxSplits, BoundsGroupsOfRowsUnderAWindow) {
  for (std::int64_t position = 0; position < 4000; ++position) {
    const int splits =
        static_cast<int>((position + 15) / kSplitKeys - first_key(position, 512) / kSplitKeys + 1);
    ASSERT_LE(splits, max_splits(kLongest, 512, 16));
  }
}

}  // namespace
}  // namespace inkstone::cuda
