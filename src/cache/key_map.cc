// SPDX-License-Identifier: Apache-2.0
#include "cache/key_map.h"

#include <bit>

#include "base/check.h"

namespace inkstone::cache {

KeyMap::KeyMap(std::int64_t capacity) : capacity_(capacity) {
  const std::size_t size = std::bit_ceil(static_cast<std::size_t>(2 * capacity + 2));
  entries_.resize(size);
  mask_ = size - 1;
}

std::size_t KeyMap::position_of(const ContentKey& key) const {
  std::size_t at = home(key);
  while (entries_[at].value != kEmpty && !(entries_[at].key == key)) at = (at + 1) & mask_;
  return at;
}

std::optional<std::int32_t> KeyMap::find(const ContentKey& key) const {
  const Entry& entry = entries_[position_of(key)];
  if (entry.value == kEmpty) return std::nullopt;
  return entry.value;
}

void KeyMap::insert(const ContentKey& key, std::int32_t value) {
  INK_CHECK(size_ < capacity_, "the map was sized for every entry there can be");
  Entry& entry = entries_[position_of(key)];
  INK_CHECK(entry.value == kEmpty && value >= 0);
  entry = {key, value};
  ++size_;
}

void KeyMap::assign(const ContentKey& key, std::int32_t value) {
  Entry& entry = entries_[position_of(key)];
  INK_CHECK(entry.value != kEmpty && value >= 0);
  entry.value = value;
}

void KeyMap::erase(const ContentKey& key) {
  std::size_t hole = position_of(key);
  INK_CHECK(entries_[hole].value != kEmpty, "the key is present");
  for (std::size_t at = (hole + 1) & mask_; entries_[at].value != kEmpty; at = (at + 1) & mask_) {
    // An entry may fill the hole unless its home lies behind the hole.
    const std::size_t from_home = (at - home(entries_[at].key)) & mask_;
    const std::size_t from_hole = (at - hole) & mask_;
    if (from_home < from_hole) continue;
    entries_[hole] = entries_[at];
    hole = at;
  }
  entries_[hole].value = kEmpty;
  --size_;
}

}  // namespace inkstone::cache
