// SPDX-License-Identifier: Apache-2.0
// server/http/workers.h - threads for what takes long: parsing, tokenising, rendering. The I/O thread goes
// on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "server/http/io_loop.h"
#include "server/http/task.h"

namespace inkstone::server {

class Workers {
 public:
  Workers(IoLoop& loop, int threads);
  // Finishes what was begun. No coroutine may wait for a job any more.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs `job` on a worker; awaited on the I/O thread, which continues there. What `job` throws comes out
  // here.
  Task<> run(std::function<void()> job);

 private:
  void enqueue(std::function<void()> job);
  void work();

  IoLoop& loop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace inkstone::server
