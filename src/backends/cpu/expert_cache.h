// SPDX-License-Identifier: Apache-2.0
// backends/cpu/expert_cache.h - keeps the routed experts of a mapped checkpoint within a given size of
// memory: reads what the router chose while earlier experts are computed, gives up what was used longest ago.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tensor/matrix_bank.h"

namespace inkstone::cpu {

// The weights of one expert, banks of one matrix each.
struct ExpertView {
  GatedMatrix w13;
  MatrixBank w2;

  static ExpertView of(const GatedMatrix& w13, const MatrixBank& w2, std::int64_t bank);
  [[nodiscard]] const std::byte* name() const { return w2.data; }
  // What it lies in; gate and up rows that alternate are one range.
  [[nodiscard]] std::vector<std::span<const std::byte>> ranges() const;
  [[nodiscard]] std::int64_t bytes() const;
  [[nodiscard]] std::int64_t slot_bytes() const;  // in the cache: whole pages
};

// A file that is mapped as a whole. Experts in it are read past the page cache, which would cost the
// processor more than the disk gives.
struct SourceFile {
  std::string path;
  std::span<const std::byte> bytes;
};

struct ExpertCacheStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t read_bytes = 0;  // of misses
  double wait_seconds = 0;      // of the caller
};

// Copies of the experts in use, in memory of its own that never grows beyond the capacity (or one round's
// only expert). Answers do not depend on its size. One caller; the reading threads are its own.
class ExpertCache {
 public:
  // Experts that lie in none of the files are copied from where they are.
  ExpertCache(std::int64_t capacity_bytes, int readers, const std::vector<SourceFile>& files = {});
  ~ExpertCache();
  ExpertCache(const ExpertCache&) = delete;
  ExpertCache& operator=(const ExpertCache&) = delete;

  // How many of these, from the first on, fit together; at least one.
  [[nodiscard]] std::size_t fitting(std::span<const ExpertView> experts) const;
  // Pins them (and nothing else any more), makes room, and starts to read those that are missing.
  void begin_round(std::span<const ExpertView> experts);
  // Returns when an expert of the round is in memory, with its weights there: valid until the next round.
  ExpertView wait(const ExpertView& expert);

  [[nodiscard]] ExpertCacheStats stats() const { return stats_; }
  [[nodiscard]] std::int64_t used_bytes() const { return used_bytes_; }

 private:
  using Memory = std::unique_ptr<std::byte, void (*)(std::byte*)>;
  struct Slot {
    Memory memory;
    std::int64_t bytes;
  };
  struct Entry {
    ExpertView here;
    Slot slot;
    std::uint64_t last_round = 0;
    std::int64_t pending = 0;  // pieces still to be read
  };
  struct Piece {
    std::span<const std::byte> from;
    std::byte* to;
    Entry* entry;
  };
  struct OpenFile {
    std::span<const std::byte> bytes;
    int descriptor;
  };

  Slot take_slot(std::int64_t bytes);
  bool drop_oldest();
  void start_reading(const ExpertView& expert, Entry& entry);
  void read_pieces();
  void read_in(const Piece& piece) const;

  std::int64_t capacity_bytes_;
  std::int64_t used_bytes_ = 0;  // of entries and spare slots
  std::uint64_t round_ = 0;
  ExpertCacheStats stats_;
  std::vector<OpenFile> files_;
  std::unordered_map<const std::byte*, std::unique_ptr<Entry>> entries_;
  std::vector<Slot> spare_;
  std::mutex mutex_;
  std::condition_variable piece_ready_;
  std::condition_variable piece_done_;
  std::deque<Piece> pieces_;
  bool stopping_ = false;
  std::vector<std::thread> readers_;
};

}  // namespace inkstone::cpu
