// SPDX-License-Identifier: Apache-2.0
// backends/cuda/moe/tables.cuh - which rows each expert works for: built on the device, read by the grouped
// products.
#pragma once

#include <cstdint>

namespace inkstone::cuda {

inline constexpr int kMaxRoutedExperts = 256;

// Assignments are numbers row * slots + slot. Expert e's lie at [offset[e], offset[e + 1]) of `order`; which
// of them comes first means nothing for any bit of the result. Tile i covers up to `tile_rows` assignments of
// one expert.
struct ExpertTables {
  std::int32_t* offset;       // [E + 1]
  std::int32_t* order;        // [rows * chosen]
  std::int32_t* tile_expert;  // [tiles]
  std::int32_t* tile_begin;   // [tiles] into order
  std::int32_t* num_tiles;    // [1]

  static std::int64_t num_ints(std::int64_t assignments, std::int64_t tiles) {
    return kMaxRoutedExperts + 1 + assignments + 2 * tiles + 1;
  }
  static ExpertTables at(std::int32_t* memory, std::int64_t assignments, std::int64_t tiles) {
    ExpertTables tables{};
    tables.offset = memory;
    tables.order = tables.offset + kMaxRoutedExperts + 1;
    tables.tile_expert = tables.order + assignments;
    tables.tile_begin = tables.tile_expert + tiles;
    tables.num_tiles = tables.tile_begin + tiles;
    return tables;
  }
};

}  // namespace inkstone::cuda
