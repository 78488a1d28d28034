// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace inkstone {

namespace {

// Steps of a model follow each other within microseconds; a sleep and a wake cost tens of them. About 20 us
// of polling.
constexpr int kPolls = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Polls for a while; false when the condition still does not hold.
template <class Condition>
bool poll(const Condition& condition) {
  for (int i = 0; i < kPolls; ++i) {
    if (condition()) return true;
    pause();
  }
  return false;
}

// Of the calling thread. Where the system refuses, the thread runs anywhere.
void keep_to(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<std::size_t>(cpu), &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// A node's part of the work, on a cache line of its own.
struct alignas(64) Share {
  std::atomic<std::int64_t> next = 0;
  std::int64_t end = 0;
};

}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable work_done;
  std::atomic<std::uint64_t> generation = 0;  // of the call; written under the mutex
  std::atomic<bool> stopping = false;         // likewise
  std::atomic<int> busy = 0;                  // workers that have not finished the call
  std::int64_t grain = 1;
  const Body* body = nullptr;
  std::vector<std::vector<int>> nodes;
  std::vector<Share> shares;  // one a node that has threads
  std::vector<std::thread> threads;

  void run_pieces(int worker) {
    for (std::size_t i = 0; i < shares.size(); ++i) {
      Share& share = shares[(static_cast<std::size_t>(worker) + i) % shares.size()];
      for (;;) {
        const std::int64_t begin = share.next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= share.end) break;
        (*body)(worker, begin, std::min(share.end, begin + grain));
      }
    }
  }

  void take_place(int worker, bool pin) const {
    const std::vector<int>& cpus = nodes[static_cast<std::size_t>(worker) % nodes.size()];
    const std::size_t turn = static_cast<std::size_t>(worker) / nodes.size();
    if (pin) return keep_to({cpus[turn % cpus.size()]});
    if (nodes.size() > 1) keep_to(cpus);
  }

  void work(int worker) {
    std::uint64_t seen = 0;
    const auto called = [&] { return stopping || generation != seen; };
    for (;;) {
      if (!poll(called)) {
        std::unique_lock lock(mutex);
        work_ready.wait(lock, called);
      }
      if (stopping) return;
      seen = generation;
      run_pieces(worker);
      if (busy.fetch_sub(1) != 1) continue;
      const std::lock_guard lock(mutex);  // the caller is before its wait or in it
      work_done.notify_one();
    }
  }

  void call(std::int64_t work_count, std::int64_t work_grain, const Body& work_body) {
    {
      const std::lock_guard lock(mutex);
      const auto num_shares = static_cast<std::int64_t>(shares.size());
      for (std::int64_t i = 0; i < num_shares; ++i) {
        Share& share = shares[static_cast<std::size_t>(i)];
        share.next = work_count * i / num_shares;
        share.end = work_count * (i + 1) / num_shares;
      }
      grain = std::max<std::int64_t>(1, work_grain);
      body = &work_body;
      busy = static_cast<int>(threads.size());
      ++generation;
    }
    work_ready.notify_all();
    run_pieces(0);
    const auto done = [&] { return busy == 0; };
    if (poll(done)) return;
    std::unique_lock lock(mutex);
    work_done.wait(lock, done);
  }
};

ThreadPool::ThreadPool(const ThreadPoolOptions& options) : state_(std::make_unique<State>()) {
  const int total = options.threads > 0 ? options.threads : available_cpus();
  state_->nodes = options.nodes.empty() ? allowed_cpus() : options.nodes;
  state_->shares = std::vector<Share>(std::min(state_->nodes.size(), static_cast<std::size_t>(total)));
  for (int i = 1; i < total; ++i) {
    state_->threads.emplace_back([this, i, pin = options.pin] {
      state_->take_place(i, pin);
      state_->work(i);
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->work_ready.notify_all();
  for (auto& thread : state_->threads) thread.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  parallel_for_worker(count, grain, [&body](int, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

void ThreadPool::parallel_for_worker(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  if (state_->threads.empty() || count <= grain) {
    grain = std::max<std::int64_t>(1, grain);
    for (std::int64_t begin = 0; begin < count; begin += grain)
      body(0, begin, std::min(count, begin + grain));
    return;
  }
  state_->call(count, grain, body);
}

}  // namespace inkstone
