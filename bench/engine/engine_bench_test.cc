// SPDX-License-Identifier: Apache-2.0
// Counts, not times: nothing is allocated by a step, and prefixes are found. Printed with
// INKSTONE_PRINT_BENCH set.
#include "bench/engine/engine_bench.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> allocations = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace inkstone::bench {
namespace {

EngineBenchOptions counting() {
  EngineBenchOptions options;
  options.allocations = [] { return allocations.load(std::memory_order_relaxed); };
  return options;
}

TEST(EngineBench, AStepAllocatesNothingAfterWarmUp) {
  EngineBenchOptions options = counting();
  options.sequences = {1, 48};
  options.context_tokens = {2048};
  options.steps = 400;
  const auto rows = bench_engine(options);
  ASSERT_TRUE(rows) << rows.error().message;
  for (const EngineBenchRow& row : *rows) {
    EXPECT_EQ(row.allocations, 0) << row.sequences;
    EXPECT_GT(row.cached_share, 0.89) << row.sequences;
  }
}

TEST(EngineBench, TheCounterCounts) {
  const std::int64_t before = allocations.load();
  ::operator delete(::operator new(100));
  EXPECT_EQ(allocations.load(), before + 1);
}

TEST(EngineBench, PrintsWhenAsked) {
  if (std::getenv("INKSTONE_PRINT_BENCH") == nullptr) GTEST_SKIP();
  const auto rows = bench_engine(counting());
  ASSERT_TRUE(rows) << rows.error().message;
  for (const EngineBenchRow& row : *rows)
    std::printf(
        "%4ld sequences, %6ld tokens: %7.2f us a step (p50 %7.2f, p99 %7.2f), %9.0f steps/s, %10.0f "
        "tokens/s, "
        "%.1f us to admit, %.3f cached, %ld allocations\n",
        row.sequences, row.context_tokens, row.us_per_step, row.us_per_step_p50, row.us_per_step_p99,
        row.steps_per_second, row.tokens_per_second, row.us_per_admission, row.cached_share, row.allocations);
}

}  // namespace
}  // namespace inkstone::bench
