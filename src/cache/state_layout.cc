// SPDX-License-Identifier: Apache-2.0
#include "cache/state_layout.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "cache/ids.h"

namespace inkstone::cache {
namespace {

WindowGroup window_group(std::int64_t index, const model::StateGroup& group) {
  WindowGroup window;
  window.group = index;
  window.row_bytes = group.bytes_per_token();
  window.ring_rows = group.ring_rows;
  window.needed_rows = group.window - 1 + group.lookahead;
  INK_CHECK(window.needed_rows <= window.ring_rows, "a ring holds its window");
  return window;
}

}  // namespace

StateLayout::StateLayout(const model::StateSpec& spec)
    : num_groups(static_cast<std::int64_t>(spec.groups.size())), margin(kCheckpointMargin) {
  smallest_spare = std::numeric_limits<std::int32_t>::max();
  for (std::int64_t i = 0; i < num_groups; ++i) {
    const model::StateGroup& group = spec.groups[static_cast<std::size_t>(i)];
    lookahead = std::max(lookahead, group.lookahead);
    if (group.paged()) {
      paged.push_back({i, group.bytes_per_token(), host_page_bytes});
      host_page_bytes += kPageTokens * group.bytes_per_token();
    } else {
      windows.push_back(window_group(i, group));
      smallest_spare = std::min(smallest_spare, group.ring_rows - windows.back().needed_rows);
    }
  }
  margin = std::min(margin, smallest_spare);
  for (WindowGroup& window : windows) {
    window.kept_rows = window.needed_rows + margin;
    window.host_offset = host_window_bytes;
    host_window_bytes += window.kept_rows * window.row_bytes;
  }
}

}  // namespace inkstone::cache
