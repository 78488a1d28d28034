// SPDX-License-Identifier: Apache-2.0
#include "media/content_hash.h"

#include <xxhash.h>

#include "base/check.h"

namespace inkstone::media {

struct ContentHasher::State {
  XXH3_state_t* hash = XXH3_createState();  // wants an alignment of its own
  ~State() { XXH3_freeState(hash); }
};

ContentHasher::ContentHasher() : state_(std::make_unique<State>()) {
  INK_CHECK(XXH3_128bits_reset(state_->hash) == XXH_OK);
}

ContentHasher::~ContentHasher() = default;

void ContentHasher::add(std::span<const std::byte> bytes) {
  INK_CHECK(XXH3_128bits_update(state_->hash, bytes.data(), bytes.size()) == XXH_OK);
}

ContentHash ContentHasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->hash);
  return {hash.low64, hash.high64};
}

}  // namespace inkstone::media
