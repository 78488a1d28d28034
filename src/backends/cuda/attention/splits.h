// SPDX-License-Identifier: Apache-2.0
// backends/cuda/attention/splits.h - where the keys of a step row are cut into parts that different blocks
// take. Pure arithmetic, for host and device.
#pragma once

#include <cstdint>

#include "backends/cuda/primitives/host_device.h"

namespace inkstone::cuda {

inline constexpr int kSplitKeys = 64;   // the constant: every boundary is a multiple of it
inline constexpr int kMaxSplits = 192;  // of a row without a window

// Keys of one split for a row at this position. Boundaries are multiples of this size from position zero on,
// so they depend on the row alone: not on the batch, not on its neighbours in a verify step. Long rows take
// larger powers of two, so that partial results stay few.
INK_HOST_DEVICE constexpr int split_keys(std::int64_t position, std::int64_t window) {
  std::int64_t size = kSplitKeys;
  if (window == 0) {
    while ((position + size) / size > kMaxSplits) size *= 2;
  }
  return static_cast<int>(size);
}

INK_HOST_DEVICE constexpr std::int64_t first_key(std::int64_t position, std::int64_t window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

// Splits [first, last] that hold the visible keys of a row; numbers are absolute: split n begins at key n *
// size.
struct SplitRange {
  int size, first, last;
};
INK_HOST_DEVICE constexpr SplitRange split_range(std::int64_t position, std::int64_t window) {
  const int size = split_keys(position, window);
  return {size, static_cast<int>(first_key(position, window) / size), static_cast<int>(position / size)};
}

// Most splits that rows below `max_positions` can have; of a group of up to `rows` consecutive rows.
INK_HOST_DEVICE constexpr int max_splits(std::int64_t max_positions, std::int64_t window, std::int64_t rows) {
  const std::int64_t by_length = (max_positions + kSplitKeys - 1) / kSplitKeys;
  const std::int64_t by_kind = window == 0 ? kMaxSplits : (window + rows) / kSplitKeys + 2;
  return static_cast<int>(by_length < by_kind ? by_length : by_kind);
}

}  // namespace inkstone::cuda
