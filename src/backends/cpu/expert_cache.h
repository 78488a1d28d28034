// SPDX-License-Identifier: Apache-2.0
// backends/cpu/expert_cache.h - keeps the routed experts of a mapped checkpoint within a given size of
// memory: reads ahead what the router chose, gives back what was used longest ago.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tensor/matrix_bank.h"

namespace inkstone::cpu {

// The memory of one expert, its down projection first: where that lies names the expert.
struct ExpertMemory {
  std::array<std::span<const std::byte>, 6> parts;

  static ExpertMemory of(const GatedMatrix& w13, const MatrixBank& w2, std::int64_t bank);
  [[nodiscard]] const std::byte* name() const { return parts[0].data(); }
  // Gate and up rows may alternate in memory: what they span is counted once.
  [[nodiscard]] std::int64_t bytes() const;
};

struct ExpertCacheStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;
  std::int64_t read_bytes = 0;  // of misses
  double wait_seconds = 0;      // of the caller
};

// Experts are used in place: the cache decides which pages of the mapping stay. It never changes a value, so
// answers do not depend on its size. One caller; the reading threads are its own.
class ExpertCache {
 public:
  ExpertCache(std::int64_t capacity_bytes, int readers);
  ~ExpertCache();
  ExpertCache(const ExpertCache&) = delete;
  ExpertCache& operator=(const ExpertCache&) = delete;

  // How many of these, from the first on, fit together; at least one.
  [[nodiscard]] std::size_t fitting(std::span<const ExpertMemory> experts) const;
  // Pins them (and nothing else any more), makes room, and starts to read those that are missing.
  void begin_round(std::span<const ExpertMemory> experts);
  // Returns when an expert of the round is in memory.
  void wait(const ExpertMemory& expert);

  [[nodiscard]] ExpertCacheStats stats() const { return stats_; }
  [[nodiscard]] std::int64_t used_bytes() const { return used_bytes_; }

 private:
  struct Entry {
    ExpertMemory memory;
    std::int64_t bytes = 0;
    std::uint64_t last_round = 0;
    std::int64_t pending = 0;  // pieces still to be read
  };
  struct Piece {
    std::span<const std::byte> bytes;
    Entry* entry;
  };

  void make_room(std::int64_t bytes);
  void start_reading(Entry& entry);
  void read_pieces();

  std::int64_t capacity_bytes_;
  std::int64_t used_bytes_ = 0;
  std::uint64_t round_ = 0;
  ExpertCacheStats stats_;
  std::unordered_map<const std::byte*, std::unique_ptr<Entry>> entries_;
  std::mutex mutex_;
  std::condition_variable piece_ready_;
  std::condition_variable piece_done_;
  std::deque<Piece> pieces_;
  bool stopping_ = false;
  std::vector<std::thread> readers_;
};

}  // namespace inkstone::cpu
