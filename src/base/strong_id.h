// SPDX-License-Identifier: Apache-2.0
// base/strong_id.h - integer ids of different things that do not convert into each other.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace inkstone {

template <class Tag, class Int = std::int32_t>
struct StrongId {
  Int value = -1;

  friend auto operator<=>(StrongId, StrongId) = default;
  [[nodiscard]] bool valid() const { return value >= 0; }
};

}  // namespace inkstone

template <class Tag, class Int>
struct std::hash<inkstone::StrongId<Tag, Int>> {
  std::size_t operator()(inkstone::StrongId<Tag, Int> id) const noexcept {
    return std::hash<Int>{}(id.value);
  }
};
