// SPDX-License-Identifier: Apache-2.0
// cache/cache_manager.h - station 6 of docs/journey.md: who holds which rows of state, for running, swapped
// and finished sequences. Asked by the engine's loop; answers with page ids, slots and copies to carry out.
//
// Positions of one sequence, all of them counts of leading positions:
//
//   0          cached_tokens          valid_end          high_water
//   |-- restored --|-- written by steps --|-- rolled back --|
//   |------------- tokens: verified -----------|
//
// Rows before valid_end were enqueued with the sequence's tokens. What is published ends at the smaller of
// valid_end and the number of verified tokens, less the look-ahead of the groups.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/checkpoint_store.h"
#include "cache/page_pool.h"
#include "cache/row_copy.h"
#include "cache/state_layout.h"

namespace inkstone::cache {

struct CacheLimits {
  std::int64_t pages = 0;         // on the device
  std::int64_t slots = 0;         // on the device: running sequences and resident checkpoints
  std::int64_t host_windows = 0;  // checkpoints and swapped sequences
  std::int64_t host_pages = 0;    // the page rows that they own
  bool poison = false;            // fill pages and slots with NaN when they change hands
};

// Holds ids, positions and counts only; needs no device. One thread. Nothing allocates but `match` (and what
// a longer sequence than ever before needs).
class CacheManager {
 public:
  CacheManager(const model::StateSpec& spec, const CacheLimits& limits);

  // --- from waiting to running ---

  // Finds the longest state to resume from and takes references on all of it: pages and checkpoint, or
  // nothing. At most prompt - 1 tokens are reused, since one must run to give logits. With `reuse` off it
  // finds nothing.
  // `most_tokens`: how long the sequence may become; its lists are made that long at once.
  SequenceId match(const ContentKey& root, std::span<const TokenKey> prompt, std::int64_t most_tokens,
                   bool reuse);
  // Gives a matched sequence its slot and its own copies of rows in shared pages; false, and nothing changed,
  // when there is no room.
  bool admit(SequenceId id, CopyPlan& plan);

  // --- steps ---

  // Pages for positions before `end`; false, and nothing changed, when there are not enough.
  bool reserve(SequenceId id, std::int64_t end, CopyPlan& plan);
  // A step that writes the rows before `end` has been enqueued.
  void wrote(SequenceId id, std::int64_t end);
  // Rows from `end` on were written with other tokens than the sequence has (rejected drafts). Rings keep
  // them out of sight by position; no copies. Comes before append.
  void roll_back(SequenceId id, std::int64_t end);
  // Tokens that follow the known ones for certain. Publishes pages that are now final.
  void append(SequenceId id, std::span<const TokenKey> verified);

  // --- keeping ---

  // Snapshot of the window state at the present end, for prefix reuse; false when there is no room for it.
  // The copies must run before the sequence's next step.
  bool checkpoint(SequenceId id, CopyPlan& plan);
  // Ends the sequence; its slot becomes a checkpoint at its last verified row.
  void finish(SequenceId id, CopyPlan& plan);
  // Ends the sequence and keeps no window state. Any state of its life.
  void release(SequenceId id);

  // Moves all state to host memory; false, and nothing changed, when it does not fit.
  bool swap_out(SequenceId id, CopyPlan& plan);
  bool swap_in(SequenceId id, CopyPlan& plan);

  // Forgets everything that serves reuse only.
  void drop_reusable();

  // --- questions ---

  [[nodiscard]] std::span<const PageId> pages(SequenceId id) const { return at(id).pages; }
  [[nodiscard]] SlotId slot(SequenceId id) const { return at(id).slot; }
  [[nodiscard]] std::int64_t cached_tokens(SequenceId id) const { return at(id).cached_tokens; }
  [[nodiscard]] std::int64_t valid_end(SequenceId id) const { return at(id).valid_end; }
  // Pages that the sequence found published when it was matched: others may hold them too.
  [[nodiscard]] std::int64_t shared_pages(SequenceId id) const { return at(id).shared_pages; }
  [[nodiscard]] std::int64_t swapped_pages(SequenceId id) const {
    return static_cast<std::int64_t>(at(id).host_pages.size());
  }
  [[nodiscard]] std::int64_t available_pages() const { return pool_.available(); }
  [[nodiscard]] std::int64_t available_slots() const { return store_.available_slots(); }
  [[nodiscard]] std::int64_t num_checkpoints() const { return store_.size(); }
  // Whether a sequence of this many pages can be swapped out now.
  [[nodiscard]] bool can_swap(std::int64_t num_pages) const { return store_.has_room(1, num_pages); }
  [[nodiscard]] const StateLayout& layout() const { return layout_; }
  [[nodiscard]] const CacheLimits& limits() const { return limits_; }

  // Counts every reference anew and compares: the first disagreement, if any. Slow; allocates.
  [[nodiscard]] Status check_invariants() const;

 private:
  friend class CacheRuleBreaker;  // tests take references late through it

  enum class Life : std::uint8_t { kFree, kMatched, kRunning, kSwapped };

  struct Sequence {
    Life life = Life::kFree;
    std::vector<TokenKey> tokens;       // verified
    std::vector<ContentKey> page_keys;  // [i]: of the tokens before page i; published pages + 1
    std::vector<PageId> pages;
    SlotId slot;
    std::int64_t shared_pages = 0;
    std::int64_t cached_tokens = 0;
    std::int64_t valid_end = 0;
    std::int64_t high_water = 0;  // end of all rows ever written into its rings
    std::int64_t lowest_cut = 0;  // rings hold what resuming from here on needs
    CheckpointId source;          // while matched
    HostWindowId window;          // while swapped
    std::vector<HostPageId> host_pages;
  };

  [[nodiscard]] Sequence& at(SequenceId id) { return *sequences_[static_cast<std::size_t>(id.value)]; }
  [[nodiscard]] const Sequence& at(SequenceId id) const {
    return *sequences_[static_cast<std::size_t>(id.value)];
  }
  SequenceId take_entry();
  void find_resume_point(Sequence& sequence) const;
  [[nodiscard]] ContentKey lookup_key(const ContentKey& key, std::span<const TokenKey> behind) const;
  void reference_hit(Sequence& sequence);
  bool take_private_pages(Sequence& sequence, std::int64_t count, CopyPlan& plan);
  void restore(Sequence& sequence, CopyPlan& plan);
  void release_pages(Sequence& sequence);
  void publish_final_pages(Sequence& sequence);
  bool own_tail(const Sequence& sequence, std::int64_t tail_begin, std::int64_t end, CopyPlan& plan);
  [[nodiscard]] std::int64_t verified_end(const Sequence& sequence) const;
  [[nodiscard]] WindowSpan servable(const Sequence& sequence) const;
  [[nodiscard]] std::int64_t tail_begin(WindowSpan span) const;
  [[nodiscard]] CheckpointStore::Contents contents_of(const Sequence& sequence, WindowSpan span) const;
  [[nodiscard]] Status check_sequence(const Sequence& sequence) const;

  StateLayout layout_;
  CacheLimits limits_;
  PagePool pool_;
  CheckpointStore store_;
  std::vector<std::unique_ptr<Sequence>> sequences_;  // entries are used again, with their memory
  std::vector<std::int32_t> free_sequences_;
  std::vector<HostPageId> scratch_pages_;
};

}  // namespace inkstone::cache
