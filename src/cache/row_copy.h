// SPDX-License-Identifier: Apache-2.0
// cache/row_copy.h - what the cache asks of whoever owns the memory: copies of rows, as values.
#pragma once

#include <cstdint>
#include <vector>

namespace inkstone::cache {

enum class Space : std::uint8_t {
  kDevice,      // `row` counts rows of the group's storage; no block
  kHostWindow,  // `row` of the group's part of window block `block`
  kHostPage,    // `row` (0..63) of the group's part of host page `block`
  kPoison,      // a source only: bytes that nobody may read (NaN); integrity checks use it
};

struct RowPlace {
  Space space = Space::kDevice;
  std::int64_t block = 0;
  std::int64_t row = 0;
};

// Rows of one group: [from.row, from.row + rows) to [to.row, to.row + rows).
struct RowCopy {
  std::int64_t group = 0;
  std::int64_t rows = 0;
  RowPlace from;
  RowPlace to;
};

// In order; carried out between the step before and the step after, in their stream.
using CopyPlan = std::vector<RowCopy>;

}  // namespace inkstone::cache
