// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/expert_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace inkstone::cpu {
namespace {

// What one reader asks the disk for at a time.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

std::span<const std::byte> rows_of(const MatrixBank& bank, std::int64_t index) {
  const std::int64_t row = bank.quantised() ? bank.columns / 2 : bank.columns * size_bytes(bank.type);
  return {bank.row(index, 0), static_cast<std::size_t>((bank.rows - 1) * bank.row_stride_bytes + row)};
}

std::span<const std::byte> scales_of(const MatrixBank& bank, std::int64_t index) {
  if (bank.scales == nullptr) return {};
  const std::int64_t row = bank.columns / MatrixBank::kColumnsPerScale;
  return {reinterpret_cast<const std::byte*>(bank.scale_row(index, 0)),
          static_cast<std::size_t>((bank.rows - 1) * bank.scale_row_stride_bytes + row)};
}

// Whole pages around a range, as the system's calls want them.
struct Pages {
  void* begin;
  std::size_t bytes;

  explicit Pages(std::span<const std::byte> range) {
    static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto from = reinterpret_cast<std::uintptr_t>(range.data()) / page * page;
    const auto to = (reinterpret_cast<std::uintptr_t>(range.data()) + range.size() + page - 1) / page * page;
    begin = reinterpret_cast<void*>(from);
    bytes = to - from;
  }
};

void read_in(std::span<const std::byte> range) {
  const Pages pages(range);
  // The first asks the disk for the whole piece and no more; page faults alone would ask for small parts of
  // it and for some of what lies behind.
  madvise(pages.begin, pages.bytes, MADV_WILLNEED);
  if (madvise(pages.begin, pages.bytes, MADV_POPULATE_READ) == 0) return;
  // Older systems, and memory that is no mapping: touching reads as well.
  std::byte sum{};
  for (std::size_t i = 0; i < range.size(); i += 4096)
    sum ^= *static_cast<const volatile std::byte*>(&range[i]);
  static_cast<void>(sum);
}

// Only what is a clean copy of a file may be dropped: pages of a private read-only mapping are. The second
// call takes them out of this process where the first is not allowed to take them out of the page cache.
void drop(std::span<const std::byte> range) {
  if (range.empty()) return;
  const Pages pages(range);
  if (madvise(pages.begin, pages.bytes, MADV_PAGEOUT) != 0) madvise(pages.begin, pages.bytes, MADV_COLD);
}

}  // namespace

ExpertMemory ExpertMemory::of(const GatedMatrix& w13, const MatrixBank& w2, std::int64_t bank) {
  return {{rows_of(w2, bank), scales_of(w2, bank), rows_of(w13.gate, bank), scales_of(w13.gate, bank),
           rows_of(w13.up, bank), scales_of(w13.up, bank)}};
}

std::int64_t ExpertMemory::bytes() const {
  std::size_t total = parts[0].size() + parts[1].size();
  for (const std::size_t gate : {2, 3}) {
    const std::byte* const begin = std::min(parts[gate].data(), parts[gate + 2].data());
    const std::byte* const end =
        std::max(parts[gate].data() + parts[gate].size(), parts[gate + 2].data() + parts[gate + 2].size());
    total += std::min(static_cast<std::size_t>(end - begin), parts[gate].size() + parts[gate + 2].size());
  }
  return static_cast<std::int64_t>(total);
}

ExpertCache::ExpertCache(std::int64_t capacity_bytes, int readers) : capacity_bytes_(capacity_bytes) {
  for (int i = 0; i < readers; ++i) readers_.emplace_back([this] { read_pieces(); });
}

ExpertCache::~ExpertCache() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  piece_ready_.notify_all();
  for (std::thread& reader : readers_) reader.join();
}

std::size_t ExpertCache::fitting(std::span<const ExpertMemory> experts) const {
  std::int64_t bytes = 0;
  std::size_t count = 0;
  while (count < experts.size() && (count == 0 || bytes + experts[count].bytes() <= capacity_bytes_))
    bytes += experts[count++].bytes();
  return count;
}

void ExpertCache::begin_round(std::span<const ExpertMemory> experts) {
  ++round_;
  std::int64_t missing = 0;
  for (const ExpertMemory& expert : experts) {
    const auto found = entries_.find(expert.name());
    if (found == entries_.end()) {
      missing += expert.bytes();
    } else {
      found->second->last_round = round_;
    }
  }
  make_room(missing);
  for (const ExpertMemory& expert : experts) {
    std::unique_ptr<Entry>& entry = entries_[expert.name()];
    if (entry != nullptr) {
      ++stats_.hits;
      continue;
    }
    entry = std::make_unique<Entry>(Entry{expert, expert.bytes(), round_, 0});
    used_bytes_ += entry->bytes;
    ++stats_.misses;
    stats_.read_bytes += entry->bytes;
    start_reading(*entry);
  }
}

// Experts of this round stay, whatever their age. What is dropped has been waited for in its round.
void ExpertCache::make_room(std::int64_t bytes) {
  while (used_bytes_ + bytes > capacity_bytes_) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second->last_round == round_) continue;
      if (oldest == entries_.end() || it->second->last_round < oldest->second->last_round) oldest = it;
    }
    if (oldest == entries_.end()) return;
    for (const auto part : oldest->second->memory.parts) drop(part);
    used_bytes_ -= oldest->second->bytes;
    entries_.erase(oldest);
  }
}

void ExpertCache::start_reading(Entry& entry) {
  const std::lock_guard lock(mutex_);
  for (const auto part : entry.memory.parts) {
    for (std::size_t begin = 0; begin < part.size(); begin += kPieceBytes) {
      pieces_.push_back({part.subspan(begin, std::min(kPieceBytes, part.size() - begin)), &entry});
      ++entry.pending;
    }
  }
  piece_ready_.notify_all();
}

void ExpertCache::read_pieces() {
  std::unique_lock lock(mutex_);
  for (;;) {
    piece_ready_.wait(lock, [this] { return stopping_ || !pieces_.empty(); });
    if (stopping_) return;
    const Piece piece = pieces_.front();
    pieces_.pop_front();
    lock.unlock();
    read_in(piece.bytes);
    lock.lock();
    if (--piece.entry->pending == 0) piece_done_.notify_all();
  }
}

void ExpertCache::wait(const ExpertMemory& expert) {
  const Entry& entry = *entries_.at(expert.name());
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  piece_done_.wait(lock, [&] { return entry.pending == 0; });
  stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace inkstone::cpu
