// SPDX-License-Identifier: Apache-2.0
// engine/ticket.h - station 13 of docs/journey.md: the way of a request's tokens from the engine's thread to
// whoever waits for them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/submission.h"

namespace inkstone::engine {

// Between one producer, the engine, and one consumer. Thread-safe.
class RequestChannel {
 public:
  // --- the engine's side ---
  void push(TokenEvent event);
  void finish(Outcome outcome);  // once; nothing is pushed afterwards
  [[nodiscard]] bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // --- the consumer's side ---
  std::optional<TokenEvent> next();      // waits; nothing once the answer has ended and all was taken
  std::optional<TokenEvent> try_next();  // never waits
  [[nodiscard]] std::optional<Outcome> try_outcome() const;
  Outcome outcome();  // waits for the end; tokens not taken stay
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  // Called after every push and at the end, on the engine's thread: for consumers that may not wait.
  void on_event(std::function<void()> wake);

 private:
  std::optional<TokenEvent> take();
  void notify(std::unique_lock<std::mutex>& lock);

  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenEvent> events_;
  std::size_t taken_ = 0;  // events before it have been taken
  std::optional<Outcome> outcome_;
  std::shared_ptr<const std::function<void()>> wake_;  // shared, so that a push allocates nothing
};

// The consumer's hold on a request. Destroying it cancels what is left of the request.
class Ticket {
 public:
  Ticket(std::shared_ptr<RequestChannel> channel, std::function<void()> wake_engine)
      : channel_(std::move(channel)), wake_engine_(std::move(wake_engine)) {}
  Ticket(Ticket&&) noexcept = default;
  Ticket& operator=(Ticket&&) = delete;
  ~Ticket();

  // As RequestChannel's.
  std::optional<TokenEvent> next() { return channel_->next(); }
  std::optional<TokenEvent> try_next() { return channel_->try_next(); }
  [[nodiscard]] std::optional<Outcome> try_outcome() const { return channel_->try_outcome(); }
  Outcome outcome() { return channel_->outcome(); }
  void on_event(std::function<void()> wake) { channel_->on_event(std::move(wake)); }
  // The engine lets go of the request within one step.
  void cancel();

 private:
  std::shared_ptr<RequestChannel> channel_;
  std::function<void()> wake_engine_;
};

}  // namespace inkstone::engine
