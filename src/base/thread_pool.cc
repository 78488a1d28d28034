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

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable work_done;
  std::uint64_t generation = 0;
  bool stopping = false;
  int busy = 0;
  std::int64_t count = 0;
  std::int64_t grain = 1;
  const std::function<void(std::int64_t, std::int64_t)>* body = nullptr;
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> threads;

  void run_pieces() {
    for (;;) {
      const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= count) return;
      (*body)(begin, std::min(count, begin + grain));
    }
  }

  void worker() {
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      work_ready.wait(lock, [&] { return stopping || generation != seen; });
      if (stopping) return;
      seen = generation;
      lock.unlock();
      run_pieces();
      lock.lock();
      if (--busy == 0) work_done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  const int total = threads > 0 ? threads : available_cpus();
  for (int i = 1; i < total; ++i) state_->threads.emplace_back([this] { state_->worker(); });
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
  if (count <= 0) return;
  if (state_->threads.empty() || count <= grain) {
    for (std::int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(count, begin + grain));
    return;
  }
  std::unique_lock lock(state_->mutex);
  state_->count = count;
  state_->grain = std::max<std::int64_t>(1, grain);
  state_->body = &body;
  state_->next.store(0, std::memory_order_relaxed);
  state_->busy = static_cast<int>(state_->threads.size());
  ++state_->generation;
  lock.unlock();
  state_->work_ready.notify_all();
  state_->run_pieces();
  lock.lock();
  state_->work_done.wait(lock, [&] { return state_->busy == 0; });
}

}  // namespace inkstone
