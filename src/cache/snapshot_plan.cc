// SPDX-License-Identifier: Apache-2.0
#include "cache/snapshot_plan.h"

#include <algorithm>

namespace inkstone::cache {
namespace {

RowPlace ring_place(const WindowGroup& group, SlotId slot, std::int64_t position) {
  return {Space::kDevice, 0, slot.value * group.ring_rows + position % group.ring_rows};
}

RowPlace host_place(const WindowGroup& group, HostWindowId window, std::int64_t end, std::int64_t position) {
  return {Space::kHostWindow, window.value, group.kept_rows - (end - position)};
}

// Calls add(position, rows) for the pieces of [begin, end) that do not cross the seam of the ring.
template <class Add>
void for_each_piece(std::int64_t begin, std::int64_t end, std::int64_t ring_rows, const Add& add) {
  while (begin < end) {
    const std::int64_t seam = (begin / ring_rows + 1) * ring_rows;
    const std::int64_t rows = std::min(end, seam) - begin;
    add(begin, rows);
    begin += rows;
  }
}

std::int64_t first_row(const WindowGroup& group, WindowSpan span) {
  return std::max<std::int64_t>(0, span.lowest_cut - group.needed_rows);
}

RowPlace page_place(PageId page) { return {Space::kDevice, 0, page.value * kPageTokens}; }

}  // namespace

void add_ring_to_host(const StateLayout& layout, SlotId slot, WindowSpan span, HostWindowId window,
                      CopyPlan& plan) {
  for (const WindowGroup& group : layout.windows) {
    for_each_piece(first_row(group, span), span.end, group.ring_rows, [&](std::int64_t p, std::int64_t rows) {
      plan.push_back({group.group, rows, ring_place(group, slot, p), host_place(group, window, span.end, p)});
    });
  }
}

void add_host_to_ring(const StateLayout& layout, HostWindowId window, WindowSpan span, std::int64_t cut,
                      SlotId slot, CopyPlan& plan) {
  for (const WindowGroup& group : layout.windows) {
    for_each_piece(first_row(group, span), cut, group.ring_rows, [&](std::int64_t p, std::int64_t rows) {
      plan.push_back({group.group, rows, host_place(group, window, span.end, p), ring_place(group, slot, p)});
    });
  }
}

void add_ring_to_ring(const StateLayout& layout, SlotId from, WindowSpan span, std::int64_t cut, SlotId to,
                      CopyPlan& plan) {
  for (const WindowGroup& group : layout.windows) {
    for_each_piece(first_row(group, span), cut, group.ring_rows, [&](std::int64_t p, std::int64_t rows) {
      plan.push_back({group.group, rows, ring_place(group, from, p), ring_place(group, to, p)});
    });
  }
}

void add_page_to_host(const StateLayout& layout, PageId page, HostPageId host, std::int64_t rows,
                      CopyPlan& plan) {
  for (const PagedGroup& group : layout.paged)
    plan.push_back({group.group, rows, page_place(page), {Space::kHostPage, host.value, 0}});
}

void add_host_to_page(const StateLayout& layout, HostPageId host, PageId page, std::int64_t rows,
                      CopyPlan& plan) {
  for (const PagedGroup& group : layout.paged)
    plan.push_back({group.group, rows, {Space::kHostPage, host.value, 0}, page_place(page)});
}

void add_page_poison(const StateLayout& layout, PageId page, CopyPlan& plan) {
  for (const PagedGroup& group : layout.paged)
    plan.push_back({group.group, kPageTokens, {Space::kPoison, 0, 0}, page_place(page)});
}

void add_slot_poison(const StateLayout& layout, SlotId slot, CopyPlan& plan) {
  for (const WindowGroup& group : layout.windows)
    plan.push_back({group.group, group.ring_rows, {Space::kPoison, 0, 0}, ring_place(group, slot, 0)});
}

}  // namespace inkstone::cache
