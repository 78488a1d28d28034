// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_cache.h"

#include <gtest/gtest.h>

namespace inkstone::engine {
namespace {

constexpr std::int64_t kBytes = 40;  // of an entry

EncoderCache::Vectors ten_numbers() { return std::make_shared<const std::vector<float>>(10); }

TEST(EncoderCache, LeastRecentlyUsedGoesFirst) {
  EncoderCache cache(2 * kBytes);
  cache.insert({1, 0}, ten_numbers());
  cache.insert({2, 0}, ten_numbers());
  EXPECT_NE(cache.find({1, 0}), nullptr);
  cache.insert({3, 0}, ten_numbers());
  EXPECT_NE(cache.find({1, 0}), nullptr);
  EXPECT_EQ(cache.find({2, 0}), nullptr);
  EXPECT_NE(cache.find({3, 0}), nullptr);
  EXPECT_EQ(cache.bytes(), 2 * kBytes);
}

TEST(EncoderCache, WhatIsHeldStaysBeyondTheBoundUntilItIsLetGo) {
  EncoderCache cache(kBytes);
  EncoderCache::Vectors held = ten_numbers();
  cache.insert({1, 0}, held);
  cache.insert({2, 0}, ten_numbers());
  EXPECT_EQ(cache.find({1, 0}), held);
  EXPECT_EQ(cache.find({2, 0}), nullptr) << "nobody holds it";
  cache.insert({3, 0}, held);
  EXPECT_EQ(cache.bytes(), 2 * kBytes);
  held.reset();
  cache.trim();
  EXPECT_LE(cache.bytes(), 2 * kBytes) << "both entries hold the same vectors";
}

TEST(EncoderCache, KeysAreComparedWhole) {
  EncoderCache cache(4 * kBytes);
  cache.insert({1, 2}, ten_numbers());
  EXPECT_EQ(cache.find({1, 3}), nullptr);
  EXPECT_EQ(cache.find({2, 2}), nullptr);
}

}  // namespace
}  // namespace inkstone::engine
