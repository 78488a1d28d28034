// SPDX-License-Identifier: Apache-2.0
#include "tests/server/fake_engine.h"

#include <algorithm>
#include <utility>

#include "sampling/stop_rule.h"

namespace inkstone::test_support {

struct FakeEngine::Request {
  engine::Submission submission;
  std::shared_ptr<engine::RequestChannel> channel;
  std::vector<std::int32_t> ids;
  sampling::StopRule stop;
  std::int64_t generated = 0;
  std::size_t place = 0;  // in the script
};

FakeEngine::FakeEngine() : script_([](const engine::Submission&) { return std::vector<std::int32_t>{0}; }) {
  thread_ = std::thread([this] { run(); });
}

FakeEngine::~FakeEngine() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FakeEngine::set_script(Script script) {
  const std::scoped_lock lock(mutex_);
  script_ = std::move(script);
}
void FakeEngine::set_step_time(std::chrono::microseconds time) {
  const std::scoped_lock lock(mutex_);
  step_time_ = time;
}
void FakeEngine::hold(bool held) {
  {
    const std::scoped_lock lock(mutex_);
    held_ = held;
  }
  changed_.notify_all();
}
void FakeEngine::fail_after(std::int64_t tokens) {
  const std::scoped_lock lock(mutex_);
  fail_after_ = tokens;
}
void FakeEngine::refuse_with(Error error) {
  const std::scoped_lock lock(mutex_);
  refusal_ = std::move(error);
}

Result<engine::Ticket> FakeEngine::submit(engine::Submission submission) {
  constexpr std::int64_t kVocabulary = 1 << 20;
  INK_TRY(sampling::validate(submission.sampling, kVocabulary));
  constexpr std::int64_t kContext = 4096;
  auto channel = std::make_shared<engine::RequestChannel>();
  {
    const std::scoped_lock lock(mutex_);
    if (refusal_) return tl::unexpected(*refusal_);
    last_ = submission;
    std::vector<std::int32_t> ids = script_(submission);
    const std::int64_t most = submission.sampling.max_tokens.value_or(kContext);
    sampling::StopRule stop(submission.sampling, submission.end_ids, most);
    requests_.push_back(
        std::make_unique<Request>(Request{std::move(submission), channel, std::move(ids), std::move(stop)}));
  }
  changed_.notify_all();
  return engine::Ticket(std::move(channel), [this] { changed_.notify_all(); });
}

engine::EngineStats FakeEngine::stats() const {
  const std::scoped_lock lock(mutex_);
  engine::EngineStats stats;
  stats.failed = failed_;
  (held_ ? stats.waiting : stats.running) = static_cast<std::int64_t>(requests_.size());
  return stats;
}
engine::Submission FakeEngine::last_submission() const {
  const std::scoped_lock lock(mutex_);
  return last_;
}
std::int64_t FakeEngine::cancelled() const {
  const std::scoped_lock lock(mutex_);
  return cancelled_;
}
std::int64_t FakeEngine::steps() const {
  const std::scoped_lock lock(mutex_);
  return steps_;
}

void FakeEngine::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (requests_.empty() || held_) {
      changed_.wait_for(lock, std::chrono::milliseconds(2));
    } else if (step_time_.count() > 0) {
      lock.unlock();
      std::this_thread::sleep_for(step_time_);
      lock.lock();
    }
    ++steps_;
    std::erase_if(requests_, [&](const std::unique_ptr<Request>& request) { return !advance(*request); });
  }
  engine::Outcome cancelled;
  cancelled.reason = engine::FinishReason::kCancelled;
  for (const auto& request : requests_) request->channel->finish(cancelled);
}

// The next of the script, unless a constraint forbids it: then the first that it allows.
std::int32_t FakeEngine::draw(Request& request) {
  const std::int32_t scripted = request.ids[std::min(request.place, request.ids.size() - 1)];
  sampling::TokenConstraint* constraint = request.submission.constraint.get();
  if (constraint == nullptr) return ++request.place, scripted;
  const std::span<const std::uint32_t> mask = constraint->mask_after({});
  const auto allowed = [&](std::size_t id) { return (mask[id / 32] >> (id % 32) & 1U) == 0; };
  std::size_t id = 0;
  if (allowed(static_cast<std::size_t>(scripted))) {
    id = static_cast<std::size_t>(scripted);
    ++request.place;
  } else {
    while (!allowed(id)) ++id;
  }
  constraint->accept(static_cast<std::int32_t>(id));
  return static_cast<std::int32_t>(id);
}

bool FakeEngine::advance(Request& request) {
  engine::Outcome outcome;
  outcome.usage = {static_cast<std::int64_t>(request.submission.prompt.size()), request.generated, 0};
  const auto end = [&](engine::FinishReason reason) {
    outcome.reason = reason;
    outcome.usage.completion_tokens = request.generated;
    request.channel->finish(outcome);
    return false;
  };
  if (request.channel->cancelled()) {
    ++cancelled_;
    return end(engine::FinishReason::kCancelled);
  }
  if (held_) return true;
  if (fail_after_ >= 0 && request.generated >= fail_after_) {
    failed_ = true;
    outcome.error = {ErrorKind::kFailed, "the device failed"};
    return end(engine::FinishReason::kFailed);
  }
  engine::TokenEvent event{draw(request), -0.5F, {}, {}};
  for (std::int64_t top = 0; top < request.submission.sampling.logprobs.value_or(0); ++top) {
    event.top_ids.push_back(static_cast<std::int32_t>(top + 1));
    event.top_logprobs.push_back(-1.0F - static_cast<float>(top));
  }
  const std::int32_t id = event.id;
  ++request.generated;
  const bool ends = request.submission.ends_answer && request.submission.ends_answer(id);
  request.channel->push(std::move(event));
  const std::optional<sampling::StopReason> stop = request.stop.after(id, request.generated);
  if (stop == sampling::StopReason::kLength && !ends) return end(engine::FinishReason::kLength);
  if (stop && stop != sampling::StopReason::kLength) outcome.stop_id = id;
  return stop || ends ? end(engine::FinishReason::kStop) : true;
}

}  // namespace inkstone::test_support
