// SPDX-License-Identifier: Apache-2.0
// cache/id_pool.h - a fixed number of equal places, each free or taken.
#pragma once

#include <optional>
#include <vector>

#include "base/check.h"

namespace inkstone::cache {

template <class Id>
class IdPool {
 public:
  explicit IdPool(std::int64_t size) : taken_(static_cast<std::size_t>(size), false) {
    free_.reserve(taken_.size());
    for (auto i = static_cast<std::int32_t>(size) - 1; i >= 0; --i) free_.push_back(i);
  }

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(taken_.size()); }
  [[nodiscard]] std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }
  [[nodiscard]] bool taken(Id id) const { return taken_[static_cast<std::size_t>(id.value)]; }

  std::optional<Id> take() {
    if (free_.empty()) return std::nullopt;
    const Id id{free_.back()};
    free_.pop_back();
    taken_[static_cast<std::size_t>(id.value)] = true;
    return id;
  }
  void give_back(Id id) {
    INK_CHECK(taken(id), "a place is given back once");
    taken_[static_cast<std::size_t>(id.value)] = false;
    free_.push_back(id.value);
  }

 private:
  std::vector<std::int32_t> free_;  // last in, first out: what was touched last is used first
  std::vector<bool> taken_;
};

}  // namespace inkstone::cache
