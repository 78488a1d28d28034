// SPDX-License-Identifier: Apache-2.0
// bench/cpu/machine_rates.h - what this machine can do at best, measured in the run that is judged by it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ops/memory.h"

namespace inkstone::bench {

double seconds_now();

// Reads a buffer of its own (in huge pages where the system gives them) with all threads of a pool.
class ReadProbe {
 public:
  ReadProbe(int threads, std::int64_t bytes);
  // Bytes per second of one pass over the buffer.
  double pass();
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  ThreadPool pool_;
  std::int64_t bytes_;
  ops::Buffer buffer_;
};

// c [m, n] = a [m, k] * b^T, b [n, k], in f32 by OpenBLAS with so many threads.
class SgemmPeer {
 public:
  // Nothing where the library is not installed.
  static std::optional<SgemmPeer> load(int threads);
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                float* c) const;

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                         float*, int);
  explicit SgemmPeer(Sgemm sgemm) : sgemm_(sgemm) {}
  Sgemm sgemm_;
};

// Bytes per second of reading a file past the page cache, in pieces of the given size by so many threads; at
// most `most_bytes` of it, from its beginning. Nothing where the file system does not allow it.
std::optional<double> disk_read_rate(const std::string& path, std::int64_t piece_bytes, int threads,
                                     std::int64_t most_bytes);

// Timings of one thing; the machine may be shared, so the best is what the program can do and the median what
// it did.
struct Timings {
  std::vector<double> seconds;
  [[nodiscard]] double best() const;
  [[nodiscard]] double median() const;
};

}  // namespace inkstone::bench
