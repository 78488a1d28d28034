// SPDX-License-Identifier: Apache-2.0
// cache/key_map.h - content key to a small number, with room taken once: the step path allocates nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cache/content_key.h"

namespace inkstone::cache {

// Open addressing, linear probing, deletion by shifting back: no tombstones, so that look-ups stay short for
// ever.
class KeyMap {
 public:
  // Holds up to `capacity` keys.
  explicit KeyMap(std::int64_t capacity);

  [[nodiscard]] std::optional<std::int32_t> find(const ContentKey& key) const;
  void insert(const ContentKey& key, std::int32_t value);  // the key is absent
  void assign(const ContentKey& key, std::int32_t value);  // the key is present
  void erase(const ContentKey& key);                       // the key is present
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  struct Entry {
    ContentKey key;
    std::int32_t value = kEmpty;
  };
  static constexpr std::int32_t kEmpty = -1;

  [[nodiscard]] std::size_t home(const ContentKey& key) const { return key.low & mask_; }
  [[nodiscard]] std::size_t position_of(const ContentKey& key) const;  // of the key, or of a free entry

  std::vector<Entry> entries_;
  std::size_t mask_ = 0;
  std::int64_t capacity_ = 0;
  std::int64_t size_ = 0;
};

}  // namespace inkstone::cache
