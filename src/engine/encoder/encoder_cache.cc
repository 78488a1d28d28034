// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/encoder_cache.h"

#include <algorithm>

namespace inkstone::engine {
namespace {

std::int64_t bytes_of(const std::vector<float>& vectors) {
  return static_cast<std::int64_t>(vectors.size() * sizeof(float));
}

}  // namespace

EncoderCache::Vectors EncoderCache::find(const cache::ContentKey& key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return entries_.front().vectors;
}

void EncoderCache::insert(const cache::ContentKey& key, Vectors vectors) {
  bytes_ += bytes_of(*vectors);
  entries_.push_front({key, std::move(vectors)});
  trim();
}

void EncoderCache::trim() {
  for (auto entry = entries_.end(); bytes_ > max_bytes_ && entry != entries_.begin();) {
    --entry;
    if (entry->vectors.use_count() > 1) continue;
    bytes_ -= bytes_of(*entry->vectors);
    entry = entries_.erase(entry);
  }
}

}  // namespace inkstone::engine
