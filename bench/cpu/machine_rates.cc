// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu/machine_rates.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "base/check.h"

namespace inkstone::bench {
namespace {

constexpr std::int64_t kPieceBytes = 1 << 20;

// In huge pages where the system gives them; whoever touches them first places them.
ops::Buffer huge_memory(std::int64_t bytes) {
  constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
  const auto size = static_cast<std::size_t>((bytes + kHugePage - 1) / kHugePage * kHugePage);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kHugePage, size));
  INK_CHECK(memory != nullptr, "memory for the measurement");
  madvise(memory, size, MADV_HUGEPAGE);
  return ops::Buffer(memory, [](std::byte* owned) { std::free(owned); });
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

ReadProbe::ReadProbe(int threads, std::int64_t bytes)
    : pool_(threads), bytes_((bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes) {
  buffer_ = huge_memory(bytes_);
  std::byte* const memory = buffer_.get();
  pool_.parallel_for(bytes_ / kPieceBytes, 1, [&](std::int64_t begin, std::int64_t end) {
    std::memset(memory + begin * kPieceBytes, 1, static_cast<std::size_t>((end - begin) * kPieceBytes));
  });
}

double ReadProbe::pass() {
  std::atomic<std::uint32_t> all = 0;
  const double begin = seconds_now();
  pool_.parallel_for(bytes_ / kPieceBytes, 1, [&](std::int64_t from, std::int64_t to) {
    all.fetch_xor(cpu::read_through(buffer_.get() + from * kPieceBytes, (to - from) * kPieceBytes));
  });
  const double seconds = seconds_now() - begin;
  INK_CHECK(all == 0, "an even number of equal words");
  return static_cast<double>(bytes_) / seconds;
}

std::optional<double> disk_read_rate(const std::string& path, std::int64_t piece_bytes, int threads,
                                     std::int64_t most_bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  const std::int64_t pieces = std::min<std::int64_t>(lseek(file, 0, SEEK_END), most_bytes) / piece_bytes;
  std::atomic<std::int64_t> total = 0;
  ThreadPool pool(threads);
  // Filled before, in huge pages: neither faults nor short requests are part of what the disk gives.
  std::vector<ops::Buffer> memory;
  for (int i = 0; i < pool.num_threads(); ++i) {
    memory.push_back(huge_memory(piece_bytes));
    std::memset(memory.back().get(), 0, static_cast<std::size_t>(piece_bytes));
  }
  const double begin = seconds_now();
  pool.parallel_for_worker(pieces, 1, [&](int worker, std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i)
      total += std::max<std::int64_t>(0, pread(file, memory[static_cast<std::size_t>(worker)].get(),
                                               static_cast<std::size_t>(piece_bytes), i * piece_bytes));
  });
  const double seconds = seconds_now() - begin;
  close(file);
  if (total == 0) return std::nullopt;
  return static_cast<double>(total) / seconds;
}

std::optional<SgemmPeer> SgemmPeer::load(int threads) {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  auto* sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  auto* set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (sgemm == nullptr || set_threads == nullptr) return std::nullopt;
  set_threads(threads);
  return SgemmPeer(sgemm);
}

void SgemmPeer::multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b,
                         float* c) const {
  constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
  const auto size = [](std::int64_t value) { return static_cast<int>(value); };
  sgemm_(kRowMajor, kPlain, kTransposed, size(m), size(n), size(k), 1, a, size(k), b, size(k), 0, c, size(n));
}

double Timings::best() const { return *std::min_element(seconds.begin(), seconds.end()); }

double Timings::median() const {
  std::vector<double> sorted = seconds;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2),
                   sorted.end());
  return sorted[sorted.size() / 2];
}

}  // namespace inkstone::bench
