// SPDX-License-Identifier: Apache-2.0
#include "server/http/workers.h"

#include <utility>

namespace inkstone::server {

Workers::Workers(IoLoop& loop, int threads) : loop_(loop) {
  for (int idx = 0; idx < threads; ++idx) threads_.emplace_back([this] { work(); });
}

Workers::~Workers() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Task<> Workers::run(std::function<void()> job) {
  const auto done = std::make_shared<Signal>(loop_);
  std::exception_ptr fault;
  enqueue([&job, &fault, done] {
    try {
      job();
    } catch (...) {
      fault = std::current_exception();
    }
    done->set();
  });
  co_await done->wait();
  if (fault) std::rethrow_exception(fault);
}

void Workers::enqueue(std::function<void()> job) {
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace inkstone::server
