// SPDX-License-Identifier: Apache-2.0
// engine/encoder/encoder_cache.h - what towers made of pictures and sounds, by content.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "cache/content_key.h"

namespace inkstone::engine {

// Vectors that somebody holds stay, however many they are; of the others the least recently used go first
// where all together exceed the bound. One thread.
class EncoderCache {
 public:
  using Vectors = std::shared_ptr<const std::vector<float>>;

  explicit EncoderCache(std::int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Null when there are none.
  Vectors find(const cache::ContentKey& key);
  void insert(const cache::ContentKey& key, Vectors vectors);

  // Down to the bound, where holders allow it.
  void trim();

  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    cache::ContentKey key;
    Vectors vectors;
  };

  std::int64_t max_bytes_;
  std::int64_t bytes_ = 0;
  std::list<Entry> entries_;  // the most recently used first; a few dozen at most
};

}  // namespace inkstone::engine
