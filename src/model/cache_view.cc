// SPDX-License-Identifier: Apache-2.0
#include "model/cache_view.h"

namespace inkstone::model {

ops::StateRows CacheView::rows(std::size_t group, Shape row_shape) const {
  INK_CHECK(group < storage.size(), "the state specification has this group");
  std::array<std::int64_t, Shape::kMaxRank> sizes{storage[group].rows()};
  for (int i = 0; i < row_shape.rank(); ++i) sizes[static_cast<std::size_t>(i) + 1] = row_shape[i];
  const Shape full(std::span(sizes.data(), static_cast<std::size_t>(row_shape.rank()) + 1));
  const bool paged = ring_rows[group] == 0;
  return {storage[group].reshaped(full), paged ? page_table : slots, ring_rows[group]};
}

}  // namespace inkstone::model
