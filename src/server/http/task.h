// SPDX-License-Identifier: Apache-2.0
// server/http/task.h - the one coroutine type of the server: work of the I/O thread that waits without
// blocking it. A task runs when it is awaited, or started; it is never destroyed while it waits. Written for
// GCC 12: no co_await inside ?: or braces, no coroutine that is a capturing lambda.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

namespace inkstone::server {

template <class T = void>
class Task;

namespace detail {

struct ResumeWaiting {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) const noexcept {
    const std::coroutine_handle<> waiting = done.promise().waiting;
    return waiting ? waiting : std::noop_coroutine();
  }
  void await_resume() const noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> waiting;
  std::exception_ptr fault;

  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] ResumeWaiting final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { fault = std::current_exception(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  void return_value(T result) { value.emplace(std::move(result)); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task(const Task&) = delete;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) noexcept {
    handle_.promise().waiting = waiting;
    return handle_;
  }
  T await_resume() {
    if (handle_.promise().fault) std::rethrow_exception(handle_.promise().fault);
    if constexpr (!std::is_void_v<T>) return std::move(*handle_.promise().value);
  }

 private:
  Handle handle_;
};

namespace detail {

template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

struct Detached {
  struct promise_type {  // NOLINT(readability-identifier-naming): the language looks for this name
    [[nodiscard]] Detached get_return_object() const noexcept { return {}; }
    [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
    [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept { std::terminate(); }
  };
};

inline Detached run_detached(Task<void> task, std::function<void()> done) {
  co_await task;
  done();
}

}  // namespace detail

// Runs `task` until it waits; `done` is called at its end. An exception that leaves the task ends the
// program.
inline void start(Task<void> task, std::function<void()> done) {
  detail::run_detached(std::move(task), std::move(done));
}

}  // namespace inkstone::server
