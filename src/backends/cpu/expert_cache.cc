// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/expert_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace inkstone::cpu {
namespace {

// What one reader asks the disk for at a time.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
// Of file positions, lengths and memory, for reading past the page cache.
constexpr std::size_t kPage = 4096;

std::size_t lead_of(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data) % kPage; }

// A range as it lies in a slot: from the beginning of its first page to the end of its last.
std::size_t paged_bytes(std::span<const std::byte> range) {
  return (lead_of(range.data()) + range.size() + kPage - 1) / kPage * kPage;
}

MatrixBank one_of(const MatrixBank& bank, std::int64_t index) {
  MatrixBank one = bank;
  one.data = bank.row(index, 0);
  one.banks = 1;
  if (bank.scales != nullptr) one.scales = bank.scale_row(index, 0);
  if (bank.scale2 != nullptr) one.scale2 = bank.scale2 + index;
  return one;
}

std::span<const std::byte> values_of(const MatrixBank& one) {
  const std::int64_t row = one.quantised() ? one.columns / 2 : one.columns * size_bytes(one.type);
  return {one.data, static_cast<std::size_t>((one.rows - 1) * one.row_stride_bytes + row)};
}

std::span<const std::byte> scales_of(const MatrixBank& one) {
  if (one.scales == nullptr) return {};
  const std::int64_t row = one.columns / MatrixBank::kColumnsPerScale;
  return {reinterpret_cast<const std::byte*>(one.scales),
          static_cast<std::size_t>((one.rows - 1) * one.scale_row_stride_bytes + row)};
}

// Appends a range, or widens the last one where both overlap.
void add_range(std::vector<std::span<const std::byte>>& ranges, std::span<const std::byte> range) {
  if (range.empty()) return;
  if (!ranges.empty()) {
    auto& last = ranges.back();
    const std::byte* const last_end = last.data() + last.size();
    const std::byte* const end = range.data() + range.size();
    if (range.data() < last_end && last.data() < end) {
      const std::byte* const begin = std::min(last.data(), range.data());
      last = {begin, static_cast<std::size_t>(std::max(last_end, end) - begin)};
      return;
    }
  }
  ranges.push_back(range);
}

// The same weights where a range of them has been copied to; `to` is where the range begins.
void move_to(ExpertView& view, std::span<const std::byte> range, const std::byte* to) {
  const auto move = [&](auto*& pointer) {
    const auto* const at = reinterpret_cast<const std::byte*>(pointer);
    if (at < range.data() || at >= range.data() + range.size()) return;
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(to + (at - range.data()));
  };
  for (MatrixBank* const bank : {&view.w2, &view.w13.gate, &view.w13.up}) {
    move(bank->data);
    if (bank->scales != nullptr) move(bank->scales);
  }
}

}  // namespace

ExpertView ExpertView::of(const GatedMatrix& w13, const MatrixBank& w2, std::int64_t bank) {
  return {{one_of(w13.gate, bank), one_of(w13.up, bank)}, one_of(w2, bank)};
}

std::vector<std::span<const std::byte>> ExpertView::ranges() const {
  std::vector<std::span<const std::byte>> all;
  add_range(all, values_of(w2));
  add_range(all, scales_of(w2));
  add_range(all, values_of(w13.gate));
  add_range(all, values_of(w13.up));
  add_range(all, scales_of(w13.gate));
  add_range(all, scales_of(w13.up));
  return all;
}

std::int64_t ExpertView::bytes() const {
  std::size_t total = 0;
  for (const auto range : ranges()) total += range.size();
  return static_cast<std::int64_t>(total);
}

std::int64_t ExpertView::slot_bytes() const {
  std::size_t total = 0;
  for (const auto range : ranges()) total += paged_bytes(range);
  return static_cast<std::int64_t>(total);
}

ExpertCache::ExpertCache(std::int64_t capacity_bytes, int readers, const std::vector<SourceFile>& files)
    : capacity_bytes_(capacity_bytes) {
  for (const SourceFile& file : files) {
    int descriptor = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    // File systems in memory have no page cache to go past.
    if (descriptor < 0) descriptor = open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) files_.push_back({file.bytes, descriptor});
  }
  for (int i = 0; i < readers; ++i) readers_.emplace_back([this] { read_pieces(); });
}

ExpertCache::~ExpertCache() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  piece_ready_.notify_all();
  for (std::thread& reader : readers_) reader.join();
  for (const OpenFile& file : files_) close(file.descriptor);
}

std::size_t ExpertCache::fitting(std::span<const ExpertView> experts) const {
  std::int64_t bytes = 0;
  std::size_t count = 0;
  while (count < experts.size() && (count == 0 || bytes + experts[count].slot_bytes() <= capacity_bytes_))
    bytes += experts[count++].slot_bytes();
  return count;
}

void ExpertCache::begin_round(std::span<const ExpertView> experts) {
  ++round_;
  for (const ExpertView& expert : experts) {
    const auto found = entries_.find(expert.name());
    if (found == entries_.end()) continue;
    found->second->last_round = round_;
    ++stats_.hits;
  }
  for (const ExpertView& expert : experts) {
    if (entries_.contains(expert.name())) continue;
    auto entry = std::make_unique<Entry>(Entry{expert, take_slot(expert.slot_bytes()), round_, 0});
    ++stats_.misses;
    stats_.read_bytes += expert.bytes();
    start_reading(expert, *entry);
    entries_.emplace(expert.name(), std::move(entry));
  }
}

// A spare slot of this size, or memory of its own as soon as there is room for it.
ExpertCache::Slot ExpertCache::take_slot(std::int64_t bytes) {
  for (;;) {
    const auto equal =
        std::find_if(spare_.begin(), spare_.end(), [&](const Slot& s) { return s.bytes == bytes; });
    if (equal != spare_.end()) {
      Slot slot = std::move(*equal);
      spare_.erase(equal);
      return slot;
    }
    if (used_bytes_ + bytes <= capacity_bytes_) break;
    if (!spare_.empty()) {
      used_bytes_ -= spare_.back().bytes;
      spare_.pop_back();
    } else if (!drop_oldest()) {
      break;
    }
  }
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const auto size = static_cast<std::size_t>(bytes);
  auto* const memory =
      static_cast<std::byte*>(std::aligned_alloc(size < kHugePage ? kPage : kHugePage, size));
  INK_CHECK(memory != nullptr, "memory for an expert, within the limit that was asked for");
  madvise(memory, size, MADV_HUGEPAGE);
  used_bytes_ += bytes;
  return {Memory(memory, [](std::byte* owned) { std::free(owned); }), bytes};
}

// Its slot becomes a spare one. Experts of this round stay, whatever their age; what is dropped has been
// waited for in its round.
bool ExpertCache::drop_oldest() {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second->last_round == round_) continue;
    if (oldest == entries_.end() || it->second->last_round < oldest->second->last_round) oldest = it;
  }
  if (oldest == entries_.end()) return false;
  spare_.push_back(std::move(oldest->second->slot));
  entries_.erase(oldest);
  return true;
}

void ExpertCache::start_reading(const ExpertView& expert, Entry& entry) {
  const std::lock_guard lock(mutex_);
  std::byte* page = entry.slot.memory.get();
  for (const auto range : expert.ranges()) {
    const std::size_t lead = lead_of(range.data());
    move_to(entry.here, range, page + lead);
    for (std::size_t begin = 0; begin < range.size();) {
      // Pieces end where a page does, except the last.
      const std::size_t size = std::min(range.size() - begin, kPieceBytes - (begin == 0 ? lead : 0));
      pieces_.push_back({range.subspan(begin, size), page + lead + begin, &entry});
      ++entry.pending;
      begin += size;
    }
    page += paged_bytes(range);
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
    read_in(piece);
    lock.lock();
    if (--piece.entry->pending == 0) piece_done_.notify_all();
  }
}

// From its file; where there is none, or it does not give all of the piece, from the mapping.
void ExpertCache::read_in(const Piece& piece) const {
  const auto in = std::find_if(files_.begin(), files_.end(), [&](const OpenFile& file) {
    return piece.from.data() >= file.bytes.data() &&
           piece.from.data() < file.bytes.data() + file.bytes.size();
  });
  if (in != files_.end()) {
    const std::size_t lead = lead_of(piece.from.data());
    const auto offset = static_cast<std::size_t>(piece.from.data() - in->bytes.data()) - lead;
    const std::size_t wanted = paged_bytes(piece.from);
    std::size_t got = 0;
    while (got < wanted) {
      const ssize_t some =
          pread(in->descriptor, piece.to - lead + got, wanted - got, static_cast<off_t>(offset + got));
      if (some < 0 && errno == EINTR) continue;
      if (some <= 0) break;
      got += static_cast<std::size_t>(some);
    }
    if (got >= lead + piece.from.size()) return;
  }
  std::memcpy(piece.to, piece.from.data(), piece.from.size());
}

ExpertView ExpertCache::wait(const ExpertView& expert) {
  const Entry& entry = *entries_.at(expert.name());
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  piece_done_.wait(lock, [&] { return entry.pending == 0; });
  stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return entry.here;
}

}  // namespace inkstone::cpu
