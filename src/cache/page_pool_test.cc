// SPDX-License-Identifier: Apache-2.0
#include "cache/page_pool.h"

#include <gtest/gtest.h>

namespace inkstone::cache {
namespace {

ContentKey key(std::uint64_t name) { return {name * 77, name}; }

TEST(PagePool, ReturnsNothingWhenFull) {
  PagePool pool(2);
  const auto first = pool.take();
  ASSERT_TRUE(pool.take());
  EXPECT_FALSE(pool.take());
  pool.release(*first);
  EXPECT_TRUE(pool.take());
}

TEST(PagePool, KeepsPublishedPagesUntilRoomIsNeeded) {
  PagePool pool(2);
  const PageId page = *pool.take();
  pool.publish(page, key(1));
  pool.release(page);
  EXPECT_EQ(pool.available(), 2);
  EXPECT_EQ(pool.find(key(1)), page);
  ASSERT_TRUE(pool.take());
  EXPECT_TRUE(pool.find(key(1))) << "the free page went first";
  ASSERT_TRUE(pool.take());
  EXPECT_FALSE(pool.find(key(1)));
}

TEST(PagePool, EvictsWhatWasReleasedFirst) {
  PagePool pool(3);
  std::vector<PageId> pages;
  for (std::uint64_t i = 0; i < 3; ++i) {
    pages.push_back(*pool.take());
    pool.publish(pages.back(), key(i));
  }
  for (const int i : {1, 0, 2}) pool.release(pages[static_cast<std::size_t>(i)]);
  pool.add_reference(pages[1]);  // used again: now the youngest
  pool.release(pages[1]);
  ASSERT_EQ(pool.take(), pages[0]);
  ASSERT_EQ(pool.take(), pages[2]);
  ASSERT_EQ(pool.take(), pages[1]);
}

TEST(PagePool, NeverEvictsAHeldPage) {
  PagePool pool(1);
  const PageId page = *pool.take();
  pool.publish(page, key(1));
  pool.add_reference(page);
  pool.release(page);
  EXPECT_FALSE(pool.take());
  EXPECT_EQ(pool.references(page), 1);
}

TEST(PagePool, TheFirstPageOfAKeyServesIt) {
  PagePool pool(2);
  const PageId first = *pool.take();
  const PageId second = *pool.take();
  pool.publish(first, key(1));
  pool.publish(second, key(1));
  EXPECT_EQ(pool.find(key(1)), first);
  pool.release(second);
  EXPECT_EQ(pool.find(key(1)), first);
  EXPECT_EQ(pool.kept(), 0) << "the second was never published";
}

TEST(PagePool, CheckNamesAWrongCount) {
  PagePool pool(2);
  const PageId page = *pool.take();
  EXPECT_TRUE(pool.check({page.value == 0 ? 1 : 0, page.value == 1 ? 1 : 0}));
  EXPECT_FALSE(pool.check({0, 0}));
  EXPECT_FALSE(pool.check({1, 1}));
}

}  // namespace
}  // namespace inkstone::cache
