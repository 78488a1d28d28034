// SPDX-License-Identifier: Apache-2.0
#include "cache/content_key.h"

#include <xxhash.h>

namespace inkstone::cache {
namespace {

constexpr TokenKey kMediaBit = TokenKey{1} << 63;  // no token id has it

ContentKey to_key(XXH128_hash_t hash) { return {hash.low64, hash.high64}; }

}  // namespace

TokenKey media_key(const ContentKey& content, std::int64_t offset) {
  const std::uint64_t words[3] = {content.low, content.high, static_cast<std::uint64_t>(offset)};
  return XXH3_64bits(words, sizeof(words)) | kMediaBit;
}

ContentKey content_hash(std::span<const std::byte> bytes) {
  return to_key(XXH3_128bits(bytes.data(), bytes.size()));
}

ContentKey root_key(std::string_view layout, std::string_view salt) {
  const ContentKey outer = to_key(XXH3_128bits(layout.data(), layout.size()));
  const ContentKey inner = to_key(XXH3_128bits_withSeed(salt.data(), salt.size(), outer.low));
  return {inner.low ^ outer.high, inner.high};
}

ContentKey extend(const ContentKey& parent, std::span<const TokenKey> tokens) {
  // The parent's low half seeds the hash and its high half is mixed into the result, so that a chain depends
  // on all 128 bits of its parent.
  const ContentKey own = to_key(XXH3_128bits_withSeed(tokens.data(), tokens.size_bytes(), parent.low));
  const std::uint64_t words[3] = {own.low, own.high, parent.high};
  return to_key(XXH3_128bits(words, sizeof(words)));
}

}  // namespace inkstone::cache
