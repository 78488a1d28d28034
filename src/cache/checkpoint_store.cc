// SPDX-License-Identifier: Apache-2.0
#include "cache/checkpoint_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace inkstone::cache {

CheckpointStore::CheckpointStore(const Limits& limits)
    : slots(limits.slots),
      windows(limits.host_windows),
      pages(limits.host_pages),
      entries_(static_cast<std::size_t>(limits.slots + limits.host_windows)),
      free_entries_(limits.slots + limits.host_windows),
      resident_(limits.slots + limits.host_windows),
      hosted_(limits.slots + limits.host_windows),
      by_key_(limits.slots + limits.host_windows) {}

std::optional<CheckpointStore::Hit> CheckpointStore::find(const ContentKey& page_key,
                                                          std::span<const TokenKey> tokens,
                                                          std::int64_t most) const {
  std::optional<Hit> best;
  for (std::int32_t i = by_key_.find(page_key).value_or(-1); i >= 0;) {
    const Checkpoint& checkpoint = entries_[static_cast<std::size_t>(i)];
    const auto differs =
        std::mismatch(checkpoint.tail.begin(), checkpoint.tail.end(), tokens.begin(), tokens.end());
    const std::int64_t shared = std::min<std::int64_t>(differs.first - checkpoint.tail.begin(), most);
    const bool serves = checkpoint.tail_begin + shared >= checkpoint.span.lowest_cut;
    if (serves && (!best || shared > best->tail_tokens)) best = Hit{CheckpointId{i}, shared};
    i = checkpoint.next_of_key;
  }
  return best;
}

bool CheckpointStore::touch(const Contents& contents) {
  for (std::int32_t i = by_key_.find(contents.page_key).value_or(-1); i >= 0; i = entry(i).next_of_key) {
    const Checkpoint& checkpoint = entry(i);
    if (!std::ranges::equal(checkpoint.tail, contents.tail)) continue;
    if (checkpoint.pins > 0) return true;
    list_of(checkpoint).erase(i);
    list_of(checkpoint).push_back(i);
    return true;
  }
  return false;
}

void CheckpointStore::insert(const Contents& contents, SlotId slot, HostWindowId window,
                             std::span<const HostPageId> own_pages) {
  INK_CHECK(slot.valid() != window.valid(), "window state lies in one place");
  const auto id = free_entries_.take();
  INK_CHECK(id.has_value(), "there is an entry for every slot and every host window");
  Checkpoint& checkpoint = entry(id->value);
  checkpoint.page_key = contents.page_key;
  checkpoint.tail_begin = contents.tail_begin;
  checkpoint.span = contents.span;
  checkpoint.tail.assign(contents.tail.begin(), contents.tail.end());
  checkpoint.slot = slot;
  checkpoint.window = window;
  checkpoint.pages.assign(own_pages.begin(), own_pages.end());
  checkpoint.pins = 0;
  link(id->value);
  list_of(checkpoint).push_back(id->value);
}

void CheckpointStore::link(std::int32_t index) {
  Checkpoint& checkpoint = entry(index);
  const auto first = by_key_.find(checkpoint.page_key);
  checkpoint.next_of_key = first.value_or(-1);
  if (first) {
    by_key_.assign(checkpoint.page_key, index);
  } else {
    by_key_.insert(checkpoint.page_key, index);
  }
}

void CheckpointStore::unlink(std::int32_t index) {
  const Checkpoint& gone = entry(index);
  const std::int32_t first = *by_key_.find(gone.page_key);
  if (first != index) {
    std::int32_t before = first;
    while (entry(before).next_of_key != index) before = entry(before).next_of_key;
    entry(before).next_of_key = gone.next_of_key;
  } else if (gone.next_of_key >= 0) {
    by_key_.assign(gone.page_key, gone.next_of_key);
  } else {
    by_key_.erase(gone.page_key);
  }
}

void CheckpointStore::pin(CheckpointId id) {
  Checkpoint& checkpoint = entry(id.value);
  if (checkpoint.pins++ > 0) return;
  list_of(checkpoint).erase(id.value);
  ++pinned_;
}

void CheckpointStore::unpin(CheckpointId id) {
  Checkpoint& checkpoint = entry(id.value);
  INK_CHECK(checkpoint.pins > 0, "only who pinned a checkpoint may unpin it");
  if (--checkpoint.pins > 0) return;
  list_of(checkpoint).push_back(id.value);
  --pinned_;
}

void CheckpointStore::drop(CheckpointId id) {
  Checkpoint& checkpoint = entry(id.value);
  INK_CHECK(checkpoint.pins == 0, "a pinned checkpoint stays");
  unlink(id.value);
  list_of(checkpoint).erase(id.value);
  if (checkpoint.slot.valid()) slots.give_back(checkpoint.slot);
  if (checkpoint.window.valid()) windows.give_back(checkpoint.window);
  for (const HostPageId page : checkpoint.pages) pages.give_back(page);
  checkpoint.pages.clear();
  checkpoint.slot = {};
  checkpoint.window = {};
  free_entries_.give_back(id);
}

void CheckpointStore::drop_unpinned() {
  while (!resident_.empty()) drop(CheckpointId{resident_.front()});
  while (!hosted_.empty()) drop(CheckpointId{hosted_.front()});
}

bool CheckpointStore::has_room(std::int64_t num_windows, std::int64_t num_pages) const {
  if (windows.free() + hosted_.size() < num_windows) return false;
  std::int64_t pages_after = pages.free();
  for (std::int32_t i = hosted_.empty() ? -1 : hosted_.front(); i >= 0 && pages_after < num_pages;
       i = hosted_.after(i))
    pages_after += static_cast<std::int64_t>(at(CheckpointId{i}).pages.size());
  return pages_after >= num_pages;
}

bool CheckpointStore::make_room(std::int64_t num_windows, std::int64_t num_pages) {
  if (!has_room(num_windows, num_pages)) return false;
  while (windows.free() < num_windows || pages.free() < num_pages) drop(CheckpointId{hosted_.front()});
  return true;
}

std::optional<SlotId> CheckpointStore::take_slot(const StateLayout& layout, CopyPlan& plan) {
  if (slots.free() > 0) return slots.take();
  if (resident_.empty()) return std::nullopt;
  const std::int32_t oldest = resident_.front();
  if (!make_room(1, 0)) {
    drop(CheckpointId{oldest});
    return slots.take();
  }
  Checkpoint& checkpoint = entry(oldest);
  resident_.erase(oldest);
  const SlotId slot = std::exchange(checkpoint.slot, SlotId{});
  checkpoint.window = *windows.take();
  hosted_.push_back(oldest);
  add_ring_to_host(layout, slot, checkpoint.span, checkpoint.window, plan);
  return slot;
}

std::int64_t CheckpointStore::available_slots() const { return slots.free() + resident_.size(); }

Status CheckpointStore::check(std::int64_t slots_elsewhere, std::int64_t windows_elsewhere,
                              std::int64_t pages_elsewhere) const {
  std::int64_t held_slots = slots_elsewhere;
  std::int64_t held_windows = windows_elsewhere;
  std::int64_t held_pages = pages_elsewhere;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(entries_.size()); ++i) {
    if (!free_entries_.taken(CheckpointId{i})) continue;
    const Checkpoint& checkpoint = at(CheckpointId{i});
    held_slots += checkpoint.slot.valid() ? 1 : 0;
    held_windows += checkpoint.window.valid() ? 1 : 0;
    held_pages += static_cast<std::int64_t>(checkpoint.pages.size());
  }
  const auto compare = [](std::string_view what, std::int64_t held, std::int64_t free,
                          std::int64_t all) -> Status {
    if (held + free == all) return {};
    return fail(ErrorKind::kFailed, fmt::format("{} held, {} free of {} {}", held, free, all, what));
  };
  INK_TRY(compare("slots", held_slots, slots.free(), slots.size()));
  INK_TRY(compare("host windows", held_windows, windows.free(), windows.size()));
  return compare("host pages", held_pages, pages.free(), pages.size());
}

}  // namespace inkstone::cache
