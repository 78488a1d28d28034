// SPDX-License-Identifier: Apache-2.0
#include "engine/ticket.h"

#include "base/check.h"

namespace inkstone::engine {

// The callback may take the lock itself, so it is called without it.
void RequestChannel::notify(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<const std::function<void()>> wake = wake_;
  lock.unlock();
  changed_.notify_all();
  if (wake) (*wake)();
}

void RequestChannel::push(TokenEvent event) {
  std::unique_lock lock(mutex_);
  INK_CHECK(!outcome_, "no token follows the end");
  events_.push_back(std::move(event));
  notify(lock);
}

void RequestChannel::finish(Outcome outcome) {
  std::unique_lock lock(mutex_);
  INK_CHECK(!outcome_, "an answer ends once");
  outcome_ = std::move(outcome);
  notify(lock);
}

std::optional<TokenEvent> RequestChannel::take() {
  if (taken_ == events_.size()) return std::nullopt;
  TokenEvent event = std::move(events_[taken_++]);
  if (taken_ == events_.size()) {
    events_.clear();  // keeps its memory
    taken_ = 0;
  }
  return event;
}

std::optional<TokenEvent> RequestChannel::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return taken_ < events_.size() || outcome_; });
  return take();
}

std::optional<TokenEvent> RequestChannel::try_next() {
  const std::scoped_lock lock(mutex_);
  return take();
}

std::optional<Outcome> RequestChannel::try_outcome() const {
  const std::scoped_lock lock(mutex_);
  return outcome_;
}

Outcome RequestChannel::outcome() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return outcome_.has_value(); });
  return *outcome_;
}

void RequestChannel::on_event(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::make_shared<const std::function<void()>>(std::move(wake));
}

Ticket::~Ticket() {
  if (channel_ && !channel_->try_outcome()) cancel();
}

void Ticket::cancel() {
  channel_->cancel();
  if (wake_engine_) wake_engine_();
}

}  // namespace inkstone::engine
