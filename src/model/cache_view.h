// SPDX-License-Identifier: Apache-2.0
// model/cache_view.h - where the state of a step's sequences lies: what the cache hands to the model.
#pragma once

#include <vector>

#include "ops/state_rows.h"
#include "tensor/tensor_view.h"

namespace inkstone::model {

// Storage is allocated once and lives as long as the engine; the tables belong to a step.
struct CacheView {
  std::vector<TensorView> storage;      // by group: [N, row_elements]; N = pages * 64 or slots * ring_rows
  std::vector<std::int64_t> ring_rows;  // by group, 0 = paged
  TensorView page_table;                // [S, max_pages] i32, -1 behind a sequence's last page
  TensorView slots;                     // [S] i32, -1 for padding sequences

  // The rows of one group with their row shape, for example {G, 2, D}.
  [[nodiscard]] ops::StateRows rows(std::size_t group, Shape row_shape) const;
};

}  // namespace inkstone::model
