// SPDX-License-Identifier: Apache-2.0
// cache/snapshot_plan.h - copies between rings, pages and host blocks, for all groups of a kind.
#pragma once

#include "cache/ids.h"
#include "cache/row_copy.h"
#include "cache/state_layout.h"

namespace inkstone::cache {

// What a window snapshot holds: enough rows to resume at any cut in [lowest_cut, end].
struct WindowSpan {
  std::int64_t lowest_cut = 0;
  std::int64_t end = 0;
};

// Position p of a snapshot of `end` lies in row kept_rows - (end - p) of its block.
void add_ring_to_host(const StateLayout& layout, SlotId slot, WindowSpan span, HostWindowId window,
                      CopyPlan& plan);
// Rows before `cut` only.
void add_host_to_ring(const StateLayout& layout, HostWindowId window, WindowSpan span, std::int64_t cut,
                      SlotId slot, CopyPlan& plan);
void add_ring_to_ring(const StateLayout& layout, SlotId from, WindowSpan span, std::int64_t cut, SlotId to,
                      CopyPlan& plan);

// The first `rows` rows of a page.
void add_page_to_host(const StateLayout& layout, PageId page, HostPageId host, std::int64_t rows,
                      CopyPlan& plan);
void add_host_to_page(const StateLayout& layout, HostPageId host, PageId page, std::int64_t rows,
                      CopyPlan& plan);

void add_page_poison(const StateLayout& layout, PageId page, CopyPlan& plan);
void add_slot_poison(const StateLayout& layout, SlotId slot, CopyPlan& plan);

}  // namespace inkstone::cache
