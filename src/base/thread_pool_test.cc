// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

namespace inkstone {
namespace {

void expect_cover(ThreadPool& pool) {
  for (const std::int64_t count : {0, 1, 7, 1000}) {
    std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
    pool.parallel_for(count, 3, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_LE(end - begin, 3);
      for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
    });
    for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
  }
}

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    expect_cover(pool);
  }
}

// The first CPU that this process may use, as if it were there `nodes` times.
std::vector<std::vector<int>> same_cpu(std::size_t nodes) {
  return std::vector<std::vector<int>>(nodes, {allowed_cpus().front().front()});
}

TEST(ThreadPool, CoversEveryIndexOnceOnSeveralMemoryNodes) {
  for (const int threads : {2, 3, 5}) {
    ThreadPool pool({.threads = threads, .nodes = same_cpu(3)});
    expect_cover(pool);
  }
}

// Every index is held until both threads have one, so that neither can do all of the work.
TEST(ThreadPool, AThreadTakesThePartOfItsNodeFirst) {
  ThreadPool pool({.threads = 2, .nodes = same_cpu(2)});
  std::atomic<int> arrived = 0;
  std::mutex mutex;
  std::vector<std::int64_t> first(2, -1);
  pool.parallel_for_worker(10, 1, [&](int worker, std::int64_t begin, std::int64_t) {
    {
      const std::lock_guard lock(mutex);
      std::int64_t& mine = first[static_cast<std::size_t>(worker)];
      if (mine >= 0) return;
      mine = begin;
    }
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(first, (std::vector<std::int64_t>{0, 5}));
}

TEST(ThreadPool, PinnedThreadsKeepToOneCpu) {
  ThreadPool pool({.threads = 3, .pin = true});
  std::atomic<int> arrived = 0;
  pool.parallel_for_worker(3, 1, [&](int worker, std::int64_t, std::int64_t) {
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
    if (worker == 0) return;  // the caller's
    cpu_set_t set;
    CPU_ZERO(&set);
    ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    EXPECT_EQ(CPU_COUNT(&set), 1) << worker;
  });
}

// Processor time, not time: a pool that polled for ever would use as much as it is given.
TEST(ThreadPool, SleepsWhenThereIsNoWork) {
  ThreadPool pool(4);
  expect_cover(pool);
  const auto used = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = used();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_LT(used() - before, 0.05);
}

}  // namespace
}  // namespace inkstone
