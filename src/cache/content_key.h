// SPDX-License-Identifier: Apache-2.0
// cache/content_key.h - what a prefix is known by: a chain of hashes over everything that its state depends
// on.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace inkstone::cache {

// 128 bits of XXH3. Equal keys are taken for equal content.
struct ContentKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const ContentKey&, const ContentKey&) = default;
};

// One position of a prompt as the cache sees it: a token id, or one row of a media item. All placeholder ids
// of media are alike, so a media row is known by its item's content and its offset within the item.
using TokenKey = std::uint64_t;
constexpr TokenKey text_key(std::int32_t id) { return static_cast<std::uint32_t>(id); }
TokenKey media_key(const ContentKey& content, std::int64_t offset);

// Hash of a media item's preprocessed bytes.
ContentKey content_hash(std::span<const std::byte> bytes);

// The root of all chains that may share state. `layout` names everything outside the tokens that decides the
// bits of a row: number types, engine layout version, adapter. `salt` keeps tenants apart.
ContentKey root_key(std::string_view layout, std::string_view salt);

// The key of parent's content followed by these tokens.
ContentKey extend(const ContentKey& parent, std::span<const TokenKey> tokens);

}  // namespace inkstone::cache
