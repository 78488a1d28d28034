// SPDX-License-Identifier: Apache-2.0
#include "cache/content_key.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>
#include <vector>

#include "cache/key_map.h"

namespace inkstone::cache {
namespace {

std::vector<TokenKey> text(std::initializer_list<std::int32_t> ids) {
  std::vector<TokenKey> keys;
  for (const std::int32_t id : ids) keys.push_back(text_key(id));
  return keys;
}

TEST(ContentKey, DependsOnEverythingInThePrefix) {
  const ContentKey root = root_key("layout 1", "");
  const ContentKey key = extend(root, text({1, 2, 3}));
  EXPECT_EQ(key, extend(root, text({1, 2, 3})));
  EXPECT_NE(key, extend(root, text({1, 2, 4})));
  EXPECT_NE(key, extend(root, text({1, 2})));
  EXPECT_NE(key, extend(extend(root, text({0})), text({1, 2, 3})));
}

TEST(ContentKey, DependsOnSaltAndLayout) {
  EXPECT_NE(root_key("bf16", "a"), root_key("bf16", "b"));
  EXPECT_NE(root_key("bf16", "a"), root_key("f32", "a"));
  EXPECT_NE(root_key("ab", "c"), root_key("a", "bc"));
}

TEST(ContentKey, MediaRowsAreKnownByContentAndOffset) {
  const std::vector<std::byte> red(100, std::byte{1});
  const std::vector<std::byte> blue(100, std::byte{2});
  EXPECT_NE(media_key(content_hash(red), 0), media_key(content_hash(blue), 0));
  EXPECT_NE(media_key(content_hash(red), 0), media_key(content_hash(red), 1));
  EXPECT_EQ(media_key(content_hash(red), 5), media_key(content_hash(red), 5));
  EXPECT_GT(media_key(content_hash(red), 0), text_key(-1)) << "no token id is a media row";
}

TEST(KeyMap, AgreesWithAStandardMapUnderRandomUse) {
  constexpr std::int64_t kCapacity = 64;
  KeyMap map(kCapacity);
  std::unordered_map<std::uint64_t, std::int32_t> expected;
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    // Few homes, so that entries crowd and wrap around.
    const std::uint64_t name = random() % 200;
    const ContentKey key{name % 5 + 125, name};
    const auto known = expected.find(name);
    if (known != expected.end() && random() % 2 == 0) {
      map.erase(key);
      expected.erase(known);
    } else if (known == expected.end() && static_cast<std::int64_t>(expected.size()) < kCapacity) {
      map.insert(key, step);
      expected[name] = step;
    }
    const std::uint64_t asked = random() % 200;
    const auto found = map.find({asked % 5 + 125, asked});
    const auto entry = expected.find(asked);
    ASSERT_EQ(found.has_value(), entry != expected.end());
    if (found) {
      ASSERT_EQ(*found, entry->second);
    }
  }
  EXPECT_EQ(map.size(), static_cast<std::int64_t>(expected.size()));
}

}  // namespace
}  // namespace inkstone::cache
