// SPDX-License-Identifier: Apache-2.0
// cache/state_layout.h - the state specification sorted by kind of storage, and the layout of host blocks.
#pragma once

#include <vector>

#include "model/state_spec.h"

namespace inkstone::cache {

// A checkpoint at B serves every cut in B - kCheckpointMargin .. B: the same prompt again resumes one token
// before its end, and a turn whose end marker is rendered differently a few tokens before.
inline constexpr std::int64_t kCheckpointMargin = 8;

struct PagedGroup {
  std::int64_t group = 0;  // index in the specification
  std::int64_t row_bytes = 0;
  std::int64_t host_offset = 0;  // in a host page: 64 rows from here
};

struct WindowGroup {
  std::int64_t group = 0;
  std::int64_t row_bytes = 0;
  std::int64_t ring_rows = 0;
  std::int64_t needed_rows = 0;  // before a position, to process it and to re-run rows that looked ahead
  std::int64_t kept_rows = 0;    // of a snapshot: needed_rows + margin
  std::int64_t host_offset =
      0;  // in a window block: kept_rows rows; the last one is that of the last position
};

// Every writer keeps, after any step, at least the last kept_rows positions of a group in its ring.
struct StateLayout {
  explicit StateLayout(const model::StateSpec& spec);

  std::vector<PagedGroup> paged;
  std::vector<WindowGroup> windows;
  std::int64_t num_groups = 0;
  std::int64_t lookahead = 0;       // most of any group
  std::int64_t margin = 0;          // kCheckpointMargin, or less where a ring is too small for it
  std::int64_t smallest_spare = 0;  // rows of any ring beyond needed_rows: room for rows that are not kept
  std::int64_t host_page_bytes = 0;
  std::int64_t host_window_bytes = 0;
};

}  // namespace inkstone::cache
