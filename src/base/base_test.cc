// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "base/check.h"
#include "base/result.h"

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

}  // namespace
}  // namespace inkstone
