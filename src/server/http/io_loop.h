// SPDX-License-Identifier: Apache-2.0
// server/http/io_loop.h - the border between the I/O thread and all others: whoever has news for a coroutine
// sets its signal.
#pragma once

#include <atomic>
#include <coroutine>
#include <functional>
#include <memory>
#include <utility>

namespace inkstone::server {

class Signal;

// The I/O thread as seen by others.
class IoLoop {
 public:
  virtual ~IoLoop() = default;
  // Any thread: deliver() will be called on the I/O thread.
  virtual void post(std::shared_ptr<Signal> signal) = 0;
};

// One coroutine waits, any threads set. Setting twice before the waiter ran counts once. Held by shared_ptr,
// so that a setter may outlive the waiter.
class Signal : public std::enable_shared_from_this<Signal> {
 public:
  explicit Signal(IoLoop& loop) : loop_(loop) {}

  void set() {
    if (!posted_.exchange(true, std::memory_order_acq_rel)) loop_.post(shared_from_this());
  }

  // I/O thread only, as everything below. Returns at once when it was set since the last wait.
  struct Wait {
    Signal& signal;
    [[nodiscard]] bool await_ready() const noexcept { return std::exchange(signal.ready_, false); }
    void await_suspend(std::coroutine_handle<> waiting) const noexcept { signal.waiting_ = waiting; }
    void await_resume() const noexcept {}
  };
  Wait wait() { return {*this}; }

  void deliver() {
    // Before the waiter looks at the news, so that news behind its look are posted again.
    posted_.store(false, std::memory_order_release);
    if (const std::coroutine_handle<> waiting = std::exchange(waiting_, nullptr)) {
      waiting.resume();
    } else {
      ready_ = true;
    }
  }

 private:
  IoLoop& loop_;
  std::atomic<bool> posted_ = false;
  bool ready_ = false;
  std::coroutine_handle<> waiting_;
};

}  // namespace inkstone::server
