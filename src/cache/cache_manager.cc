// SPDX-License-Identifier: Apache-2.0
#include "cache/cache_manager.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace inkstone::cache {

CacheManager::CacheManager(const model::StateSpec& spec, const CacheLimits& limits)
    : layout_(spec),
      limits_(limits),
      pool_(limits.pages),
      store_({limits.slots, limits.host_windows, limits.host_pages}) {}

SequenceId CacheManager::take_entry() {
  if (free_sequences_.empty()) {
    sequences_.push_back(std::make_unique<Sequence>());
    free_sequences_.reserve(sequences_.size());
    free_sequences_.push_back(static_cast<std::int32_t>(sequences_.size()) - 1);
  }
  const SequenceId id{free_sequences_.back()};
  free_sequences_.pop_back();
  return id;
}

// --- from waiting to running ---

SequenceId CacheManager::match(const ContentKey& root, std::span<const TokenKey> prompt,
                               std::int64_t most_tokens, bool reuse) {
  const SequenceId id = take_entry();
  Sequence& sequence = at(id);
  sequence.life = Life::kMatched;
  sequence.tokens.reserve(static_cast<std::size_t>(most_tokens));
  sequence.pages.reserve(static_cast<std::size_t>(pages_for(most_tokens)));
  sequence.page_keys.reserve(sequence.pages.capacity() + 1);
  sequence.tokens.assign(prompt.begin(), prompt.end());
  sequence.page_keys.assign(1, root);
  if (reuse) find_resume_point(sequence);
  reference_hit(sequence);
  return id;
}

// Walks the published pages of the prompt and remembers the deepest checkpoint on the way.
void CacheManager::find_resume_point(Sequence& sequence) const {
  const std::span<const TokenKey> tokens = sequence.tokens;
  const auto most = static_cast<std::int64_t>(tokens.size()) - 1;
  std::int64_t resume_pages = 0;
  for (std::int64_t page = 0;; ++page) {
    const std::int64_t begin = page * kPageTokens;
    if (begin >= most) break;
    const auto rest = tokens.subspan(static_cast<std::size_t>(begin));
    const auto hit = store_.find(sequence.page_keys.back(), rest, most - begin);
    if (hit && begin + hit->tail_tokens > sequence.cached_tokens) {
      sequence.source = hit->checkpoint;
      sequence.cached_tokens = begin + hit->tail_tokens;
      resume_pages = page;
    }
    if (begin + kPageTokens + layout_.lookahead > most) break;
    const ContentKey key = extend(sequence.page_keys.back(), rest.first(kPageTokens));
    const auto found = pool_.find(lookup_key(key, rest.subspan(kPageTokens)));
    if (!found) break;
    sequence.page_keys.push_back(key);
    sequence.pages.push_back(*found);
  }
  sequence.shared_pages = resume_pages;
  sequence.pages.resize(static_cast<std::size_t>(resume_pages));
  sequence.page_keys.resize(static_cast<std::size_t>(resume_pages) + 1);
}

void CacheManager::reference_hit(Sequence& sequence) {
  for (const PageId page : sequence.pages) pool_.add_reference(page);
  if (sequence.source.valid()) store_.pin(sequence.source);
}

// The last rows of a page depend on the tokens that the groups look ahead to; a prefix that goes on
// differently is served by another page. A cut that shares the page has these tokens in its prefix.
ContentKey CacheManager::lookup_key(const ContentKey& key, std::span<const TokenKey> behind) const {
  if (layout_.lookahead == 0) return key;
  return extend(key, behind.first(static_cast<std::size_t>(layout_.lookahead)));
}

bool CacheManager::admit(SequenceId id, CopyPlan& plan) {
  Sequence& sequence = at(id);
  INK_CHECK(sequence.life == Life::kMatched, "admission follows matching");
  const std::int64_t own_pages = pages_for(sequence.cached_tokens) - sequence.shared_pages;
  if (pool_.available() < own_pages) return false;
  const auto slot = store_.take_slot(layout_, plan);
  if (!slot) return false;
  sequence.slot = *slot;
  if (limits_.poison) add_slot_poison(layout_, *slot, plan);
  take_private_pages(sequence, own_pages, plan);
  if (sequence.source.valid()) restore(sequence, plan);
  sequence.valid_end = sequence.cached_tokens;
  sequence.high_water = sequence.cached_tokens;
  sequence.life = Life::kRunning;
  return true;
}

bool CacheManager::take_private_pages(Sequence& sequence, std::int64_t count, CopyPlan& plan) {
  if (pool_.available() < count) return false;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto page = pool_.take();
    INK_CHECK(page.has_value(), "as many pages as are available");
    sequence.pages.push_back(*page);
    if (limits_.poison) add_page_poison(layout_, *page, plan);
  }
  return true;
}

void CacheManager::restore(Sequence& sequence, CopyPlan& plan) {
  const Checkpoint& source = store_.at(sequence.source);
  const std::int64_t cut = sequence.cached_tokens;
  if (source.slot.valid()) {
    add_ring_to_ring(layout_, source.slot, source.span, cut, sequence.slot, plan);
  } else {
    add_host_to_ring(layout_, source.window, source.span, cut, sequence.slot, plan);
  }
  for (std::int64_t begin = source.tail_begin; begin < cut; begin += kPageTokens) {
    const HostPageId host = source.pages[static_cast<std::size_t>((begin - source.tail_begin) / kPageTokens)];
    const PageId page = sequence.pages[static_cast<std::size_t>(begin / kPageTokens)];
    add_host_to_page(layout_, host, page, std::min(kPageTokens, cut - begin), plan);
  }
  sequence.lowest_cut = source.span.lowest_cut;
  store_.unpin(std::exchange(sequence.source, CheckpointId{}));
}

// --- steps ---

bool CacheManager::reserve(SequenceId id, std::int64_t end, CopyPlan& plan) {
  Sequence& sequence = at(id);
  INK_CHECK(sequence.life == Life::kRunning, "only running sequences take pages");
  const std::int64_t missing = pages_for(end) - static_cast<std::int64_t>(sequence.pages.size());
  return missing <= 0 || take_private_pages(sequence, missing, plan);
}

void CacheManager::wrote(SequenceId id, std::int64_t end) {
  Sequence& sequence = at(id);
  INK_CHECK(end >= sequence.valid_end, "steps write forwards");
  sequence.valid_end = end;
  sequence.high_water = std::max(sequence.high_water, end);
  publish_final_pages(sequence);
}

void CacheManager::roll_back(SequenceId id, std::int64_t end) {
  Sequence& sequence = at(id);
  INK_CHECK(end <= sequence.valid_end && end >= verified_end(sequence),
            "only unverified rows are rolled back");
  INK_CHECK(sequence.high_water - end <= layout_.smallest_spare, "rings still hold the window");
  sequence.valid_end = end;
}

void CacheManager::append(SequenceId id, std::span<const TokenKey> verified) {
  Sequence& sequence = at(id);
  sequence.tokens.insert(sequence.tokens.end(), verified.begin(), verified.end());
  if (sequence.life == Life::kRunning) publish_final_pages(sequence);
}

std::int64_t CacheManager::verified_end(const Sequence& sequence) const {
  return std::min(sequence.valid_end, static_cast<std::int64_t>(sequence.tokens.size()));
}

void CacheManager::publish_final_pages(Sequence& sequence) {
  const std::int64_t final_rows = verified_end(sequence) - layout_.lookahead;
  for (;;) {
    const auto page = static_cast<std::int64_t>(sequence.page_keys.size()) - 1;
    if ((page + 1) * kPageTokens > final_rows) return;
    const auto begin = static_cast<std::size_t>(page * kPageTokens);
    const ContentKey key =
        extend(sequence.page_keys.back(), std::span(sequence.tokens).subspan(begin, kPageTokens));
    const auto behind = std::span(sequence.tokens).subspan(begin + kPageTokens);
    pool_.publish(sequence.pages[static_cast<std::size_t>(page)], lookup_key(key, behind));
    sequence.page_keys.push_back(key);
  }
}

// --- keeping ---

// A ring has lost the rows that later ones, rolled back or not, have overwritten.
WindowSpan CacheManager::servable(const Sequence& sequence) const {
  const std::int64_t end = verified_end(sequence);
  const std::int64_t overwritten = sequence.high_water - layout_.smallest_spare;
  return {std::max({sequence.lowest_cut, end - layout_.margin, overwritten, std::int64_t{0}}), end};
}

// Rows before it are final for every cut that the span serves.
std::int64_t CacheManager::tail_begin(WindowSpan span) const {
  return page_floor(std::max<std::int64_t>(0, span.lowest_cut - layout_.lookahead));
}

// Copies the page rows [begin, end) to host pages in scratch_pages_.
bool CacheManager::own_tail(const Sequence& sequence, std::int64_t begin, std::int64_t end, CopyPlan& plan) {
  const std::int64_t count = layout_.paged.empty() ? 0 : pages_for(end - begin);
  scratch_pages_.clear();
  if (!store_.make_room(0, count)) return false;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = begin + i * kPageTokens;
    scratch_pages_.push_back(*store_.pages.take());
    add_page_to_host(layout_, sequence.pages[static_cast<std::size_t>(first / kPageTokens)],
                     scratch_pages_.back(), std::min(kPageTokens, end - first), plan);
  }
  return true;
}

CheckpointStore::Contents CacheManager::contents_of(const Sequence& sequence, WindowSpan span) const {
  const std::int64_t begin = tail_begin(span);
  const auto tokens = std::span(sequence.tokens);
  return {sequence.page_keys[static_cast<std::size_t>(begin / kPageTokens)], begin, span,
          tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(span.end - begin))};
}

bool CacheManager::checkpoint(SequenceId id, CopyPlan& plan) {
  const Sequence& sequence = at(id);
  const WindowSpan span = servable(sequence);
  if (span.end == 0 || span.lowest_cut > span.end) return false;
  const CheckpointStore::Contents contents = contents_of(sequence, span);
  if (store_.touch(contents)) return true;
  if (!store_.make_room(1, pages_for(span.end - contents.tail_begin))) return false;
  if (!own_tail(sequence, contents.tail_begin, span.end, plan)) return false;
  const HostWindowId window = *store_.windows.take();
  add_ring_to_host(layout_, sequence.slot, span, window, plan);
  store_.insert(contents, {}, window, scratch_pages_);
  return true;
}

void CacheManager::finish(SequenceId id, CopyPlan& plan) {
  Sequence& sequence = at(id);
  INK_CHECK(sequence.life == Life::kRunning, "a running sequence finishes");
  const WindowSpan span = servable(sequence);
  if (span.end > 0 && span.lowest_cut <= span.end) {
    const CheckpointStore::Contents contents = contents_of(sequence, span);
    if (!store_.touch(contents) && own_tail(sequence, contents.tail_begin, span.end, plan))
      store_.insert(contents, std::exchange(sequence.slot, SlotId{}), {}, scratch_pages_);
  }
  release(id);
}

// The last page of a prefix is of no use without the first, so it is the first to be evicted.
void CacheManager::release_pages(Sequence& sequence) {
  for (; !sequence.pages.empty(); sequence.pages.pop_back()) pool_.release(sequence.pages.back());
}

void CacheManager::release(SequenceId id) {
  Sequence& sequence = at(id);
  INK_CHECK(sequence.life != Life::kFree, "a sequence is released once");
  release_pages(sequence);
  if (sequence.source.valid()) store_.unpin(sequence.source);
  if (sequence.slot.valid()) store_.slots.give_back(sequence.slot);
  if (sequence.window.valid()) store_.windows.give_back(sequence.window);
  for (const HostPageId page : sequence.host_pages) store_.pages.give_back(page);
  sequence.host_pages.clear();
  sequence.source = {};
  sequence.slot = {};
  sequence.window = {};
  sequence.shared_pages = sequence.cached_tokens = 0;
  sequence.valid_end = sequence.high_water = sequence.lowest_cut = 0;
  sequence.life = Life::kFree;
  free_sequences_.push_back(id.value);
}

bool CacheManager::swap_out(SequenceId id, CopyPlan& plan) {
  Sequence& sequence = at(id);
  INK_CHECK(sequence.life == Life::kRunning, "a running sequence is swapped out");
  const WindowSpan span = servable(sequence);
  const std::int64_t count = pages_for(sequence.valid_end);
  const WindowSpan exact{std::min(span.lowest_cut, sequence.valid_end), sequence.valid_end};
  INK_CHECK(sequence.high_water - sequence.valid_end <= layout_.smallest_spare,
            "rings still hold the window");
  if (!store_.make_room(1, count)) return false;
  sequence.window = *store_.windows.take();
  sequence.lowest_cut = std::max(exact.lowest_cut, exact.end - layout_.margin);
  add_ring_to_host(layout_, sequence.slot, {sequence.lowest_cut, exact.end}, sequence.window, plan);
  for (std::int64_t i = 0; i < count; ++i) {
    sequence.host_pages.push_back(*store_.pages.take());
    add_page_to_host(layout_, sequence.pages[static_cast<std::size_t>(i)], sequence.host_pages.back(),
                     std::min(kPageTokens, sequence.valid_end - i * kPageTokens), plan);
  }
  release_pages(sequence);
  store_.slots.give_back(std::exchange(sequence.slot, SlotId{}));
  sequence.shared_pages = 0;
  sequence.life = Life::kSwapped;
  return true;
}

bool CacheManager::swap_in(SequenceId id, CopyPlan& plan) {
  Sequence& sequence = at(id);
  INK_CHECK(sequence.life == Life::kSwapped, "a swapped sequence is swapped in");
  const auto count = static_cast<std::int64_t>(sequence.host_pages.size());
  if (pool_.available() < count) return false;
  const auto slot = store_.take_slot(layout_, plan);
  if (!slot) return false;
  sequence.slot = *slot;
  if (limits_.poison) add_slot_poison(layout_, *slot, plan);
  add_host_to_ring(layout_, sequence.window, {sequence.lowest_cut, sequence.valid_end}, sequence.valid_end,
                   *slot, plan);
  store_.windows.give_back(std::exchange(sequence.window, HostWindowId{}));
  take_private_pages(sequence, count, plan);
  for (std::int64_t i = 0; i < count; ++i) {
    const HostPageId host = sequence.host_pages[static_cast<std::size_t>(i)];
    add_host_to_page(layout_, host, sequence.pages[static_cast<std::size_t>(i)],
                     std::min(kPageTokens, sequence.valid_end - i * kPageTokens), plan);
    store_.pages.give_back(host);
  }
  sequence.host_pages.clear();
  sequence.high_water = sequence.valid_end;
  sequence.life = Life::kRunning;
  // The pages it held before may be gone; its new ones serve as well.
  sequence.page_keys.resize(1);
  publish_final_pages(sequence);
  return true;
}

void CacheManager::drop_reusable() {
  store_.drop_unpinned();
  pool_.drop_kept();
}

// --- invariants ---

Status CacheManager::check_sequence(const Sequence& sequence) const {
  const auto fault = [&](std::string_view what) {
    return fail(ErrorKind::kFailed,
                fmt::format("{} (valid {}, written {}, {} tokens, {} pages)", what, sequence.valid_end,
                            sequence.high_water, sequence.tokens.size(), sequence.pages.size()));
  };
  const auto published = static_cast<std::int64_t>(sequence.page_keys.size()) - 1;
  if (sequence.life == Life::kRunning) {
    if (!sequence.slot.valid()) return fault("a running sequence without a slot");
    if (static_cast<std::int64_t>(sequence.pages.size()) < pages_for(sequence.valid_end))
      return fault("valid rows without pages");
    if (published * kPageTokens + layout_.lookahead > std::max(verified_end(sequence), layout_.lookahead))
      return fault("published beyond the verified tokens");
    if (sequence.high_water < sequence.valid_end) return fault("valid rows that were never written");
    if (sequence.high_water - sequence.valid_end > layout_.smallest_spare)
      return fault("a ring lost its window");
  }
  if (sequence.life == Life::kSwapped && !sequence.window.valid()) return fault("swapped without a window");
  return {};
}

Status CacheManager::check_invariants() const {
  std::vector<std::int32_t> references(static_cast<std::size_t>(pool_.num_pages()), 0);
  std::int64_t slots = 0;
  std::int64_t windows = 0;
  std::int64_t host_pages = 0;
  for (const auto& sequence : sequences_) {
    if (sequence->life == Life::kFree) continue;
    INK_TRY(check_sequence(*sequence));
    for (const PageId page : sequence->pages) ++references[static_cast<std::size_t>(page.value)];
    slots += sequence->slot.valid() ? 1 : 0;
    windows += sequence->window.valid() ? 1 : 0;
    host_pages += static_cast<std::int64_t>(sequence->host_pages.size());
  }
  INK_TRY(pool_.check(references));
  return store_.check(slots, windows, host_pages);
}

}  // namespace inkstone::cache
