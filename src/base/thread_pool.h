// SPDX-License-Identifier: Apache-2.0
// base/thread_pool.h - spreads independent pieces of work over a fixed set of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/cpus.h"

namespace inkstone {

struct ThreadPoolOptions {
  int threads = 0;   // counts the calling thread; 1 runs everything in the caller; 0: available_cpus()
  bool pin = false;  // each thread but the caller's keeps to one CPU
  std::vector<std::vector<int>> nodes = {};  // CPUs by memory node; empty: allowed_cpus()
};

// Threads belong to memory nodes in turn and keep to the CPUs of theirs where there are several. The work of
// a call is divided among the nodes in order; a node's threads take their own part first and then what is
// left of others. So the same part of a weight is read by the same node at every step, and the first touch
// puts it there.
//
// One caller at a time. The work of a call is [0, count); which thread runs which index is not defined, so an
// index must not depend on another, and results must not depend on the number of threads.
class ThreadPool {
 public:
  explicit ThreadPool(const ThreadPoolOptions& options);
  explicit ThreadPool(int threads) : ThreadPool(ThreadPoolOptions{.threads = threads}) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int num_threads() const;

  // Calls body(begin, end) over disjoint ranges that cover [0, count), at most `grain` indices each; returns
  // when all are done. `body` must not throw.
  void parallel_for(std::int64_t count, std::int64_t grain,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& body);
  // The same with the index of the thread that runs the range, in [0, num_threads): for scratch memory of its
  // own.
  using Body = std::function<void(int worker, std::int64_t begin, std::int64_t end)>;
  void parallel_for_worker(std::int64_t count, std::int64_t grain, const Body& body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inkstone
