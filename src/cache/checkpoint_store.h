// SPDX-License-Identifier: Apache-2.0
// cache/checkpoint_store.h - window state kept for prefix reuse: which prefixes, where, and which goes first.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/content_key.h"
#include "cache/id_pool.h"
#include "cache/ids.h"
#include "cache/index_list.h"
#include "cache/key_map.h"
#include "cache/snapshot_plan.h"

namespace inkstone::cache {

// Immutable once inserted. Full pages before `tail_begin` are found in the page pool by `page_key`;
// everything from there to the end is the checkpoint's own: the rows of rings (in a slot that nobody runs in
// any more, or in a host window) and a copy of the page rows.
struct Checkpoint {
  ContentKey page_key;          // of the tokens before tail_begin
  std::int64_t tail_begin = 0;  // a multiple of 64
  WindowSpan span;              // serves cuts in [lowest_cut, end]
  std::vector<TokenKey> tail;   // tokens [tail_begin, end)
  SlotId slot;                  // one of these two is valid
  HostWindowId window;
  std::vector<HostPageId> pages;  // of the rows [tail_begin, end)
  std::int32_t pins = 0;          // sequences about to resume from it
  std::int32_t next_of_key = -1;
};

// Owns the host blocks and the slots. Least recently used goes first; a pinned checkpoint never goes.
class CheckpointStore {
 public:
  struct Limits {
    std::int64_t slots = 0;
    std::int64_t host_windows = 0;
    std::int64_t host_pages = 0;
  };
  explicit CheckpointStore(const Limits& limits);

  // The deepest cut of a checkpoint under this key that `tokens`, the prompt from its tail_begin on, share,
  // at most `most` tokens of them; nothing when no checkpoint serves.
  struct Hit {
    CheckpointId checkpoint;
    std::int64_t tail_tokens = 0;  // cut - tail_begin
  };
  [[nodiscard]] std::optional<Hit> find(const ContentKey& page_key, std::span<const TokenKey> tokens,
                                        std::int64_t most) const;
  struct Contents {
    ContentKey page_key;
    std::int64_t tail_begin = 0;
    WindowSpan span;
    std::span<const TokenKey> tail;
  };
  // Whether exactly this prefix has a checkpoint, which then counts as used.
  bool touch(const Contents& contents);

  // The checkpoint's places are taken from the pools by the caller and belong to the store from here on.
  void insert(const Contents& contents, SlotId slot, HostWindowId window, std::span<const HostPageId> pages);
  [[nodiscard]] const Checkpoint& at(CheckpointId id) const {
    return entries_[static_cast<std::size_t>(id.value)];
  }
  void pin(CheckpointId id);
  void unpin(CheckpointId id);
  void drop(CheckpointId id);
  void drop_unpinned();

  // Places for snapshots, at the cost of the oldest checkpoints; false (and nothing dropped) when even all of
  // them would not do.
  bool make_room(std::int64_t windows, std::int64_t pages);
  [[nodiscard]] bool has_room(std::int64_t windows, std::int64_t pages) const;
  // A slot to run in. When only checkpoints hold slots, the oldest moves to host memory or is forgotten.
  std::optional<SlotId> take_slot(const StateLayout& layout, CopyPlan& plan);
  // Slots that take_slot can give.
  [[nodiscard]] std::int64_t available_slots() const;

  IdPool<SlotId> slots;
  IdPool<HostWindowId> windows;
  IdPool<HostPageId> pages;

  [[nodiscard]] std::int64_t size() const { return resident_.size() + hosted_.size() + pinned_; }
  // Every place is free, in a checkpoint, or counted by the caller as taken by running or swapped sequences.
  [[nodiscard]] Status check(std::int64_t slots_elsewhere, std::int64_t windows_elsewhere,
                             std::int64_t pages_elsewhere) const;

 private:
  [[nodiscard]] Checkpoint& entry(std::int32_t index) { return entries_[static_cast<std::size_t>(index)]; }
  IndexList& list_of(const Checkpoint& checkpoint) { return checkpoint.slot.valid() ? resident_ : hosted_; }
  void link(std::int32_t index);
  void unlink(std::int32_t index);

  std::vector<Checkpoint> entries_;
  IdPool<CheckpointId> free_entries_;
  IndexList resident_;  // unpinned ones, the least recently used first
  IndexList hosted_;
  std::int64_t pinned_ = 0;
  KeyMap by_key_;  // first checkpoint of a key; the others follow by next_of_key
};

}  // namespace inkstone::cache
