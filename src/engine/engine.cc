// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "scheduler/scheduler.h"

namespace inkstone::engine {
namespace {

constexpr std::int64_t kMaxWaiting = 1 << 15;  // half of what the loop numbers

}  // namespace

struct Engine::Inbox {
  struct Entry {
    Submission submission;
    std::shared_ptr<RequestChannel> channel;
    std::int64_t most_tokens = 0;
  };
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<Entry> entries;
  bool woken = false;  // something changed that is not an entry
  bool stopping = false;
  std::optional<Error> fault;  // of the device
  EngineStats stats;

  void wake() {
    {
      const std::scoped_lock lock(mutex);
      woken = true;
    }
    changed.notify_one();
  }
};

Result<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<ModelRunner> runner,
                                               const EngineOptions& options, const ModelLimits& limits) {
  if (options.max_sequences < 1 || options.max_context_tokens < 2)
    return invalid("an engine runs at least one sequence of two tokens");
  INK_TRY(scheduler::check(options.scheduling(), options.max_sequences, 1 + options.draft_rows));
  std::unique_ptr<Engine> engine(new Engine(std::move(runner), options, limits));
  engine->thread_ = std::thread([raw = engine.get()] { raw->run(); });
  return engine;
}

Engine::Engine(std::unique_ptr<ModelRunner> runner, const EngineOptions& options, const ModelLimits& limits)
    : runner_(std::move(runner)),
      options_(options),
      limits_(limits),
      pool_tokens_(cache_limits(runner_->state_spec(), options).pages * cache::kPageTokens),
      loop_(*runner_, options),
      inbox_(std::make_shared<Inbox>()) {}

Engine::~Engine() {
  {
    const std::scoped_lock lock(inbox_->mutex);
    inbox_->stopping = true;
  }
  inbox_->changed.notify_one();
  thread_.join();
}

Result<std::int64_t> Engine::check(const Submission& submission) const {
  if (submission.prompt.empty()) return invalid("the prompt is empty");
  for (std::size_t i = 0; i < submission.prompt.size(); ++i) {
    const std::int64_t id = submission.prompt[i];
    if (id < 0 || id >= limits_.vocabulary)
      return invalid(
          fmt::format("token {} of the prompt is {}; ids are 0 to {}", i, id, limits_.vocabulary - 1));
  }
  for (const MediaItem& item : submission.media) {
    const auto prompt_tokens = static_cast<std::int64_t>(submission.prompt.size());
    if (item.begin < 0 || item.rows < 1 || item.begin + item.rows > prompt_tokens)
      return invalid(fmt::format("a media item of {} rows at {} does not lie in the {} tokens of the prompt",
                                 item.rows, item.begin, prompt_tokens));
    const PreparedMedia& prepared = item.prepared;
    if (item.vectors == nullptr && (prepared.rows.rows() != item.rows || !runner_->takes(prepared)))
      return invalid(
          fmt::format("the media item at {} is nothing that this model's towers take", item.begin));
  }
  INK_TRY(sampling::validate(submission.sampling, limits_.valid_vocabulary));
  const std::int64_t max_tokens = submission.sampling.max_tokens.value_or(-1);
  if (max_tokens == 0) return invalid("max_tokens is at least 1");
  return scheduler::most_tokens({static_cast<std::int64_t>(submission.prompt.size()), max_tokens},
                                options_.max_context_tokens, pool_tokens_);
}

Result<Ticket> Engine::submit(Submission submission) {
  const std::int64_t most = INK_TRY(check(submission));
  if (!submission.sampling.seed) submission.sampling.seed = sampling::random_seed();
  auto channel = std::make_shared<RequestChannel>();
  {
    const std::scoped_lock lock(inbox_->mutex);
    if (inbox_->fault) return tl::unexpected(*inbox_->fault);
    if (inbox_->stats.waiting + static_cast<std::int64_t>(inbox_->entries.size()) >= kMaxWaiting)
      return fail(ErrorKind::kUnavailable, fmt::format("{} requests wait already", kMaxWaiting));
    inbox_->entries.push_back({std::move(submission), channel, most});
  }
  inbox_->changed.notify_one();
  return Ticket(std::move(channel), [inbox = inbox_] { inbox->wake(); });
}

EngineStats Engine::stats() const {
  const std::scoped_lock lock(inbox_->mutex);
  EngineStats stats = inbox_->stats;
  stats.waiting += static_cast<std::int64_t>(inbox_->entries.size());
  stats.failed = inbox_->fault.has_value();
  return stats;
}

// False when the engine is to stop.
bool Engine::take_inbox(bool may_wait) {
  std::unique_lock lock(inbox_->mutex);
  inbox_->stats = loop_.stats();
  if (may_wait)
    inbox_->changed.wait(lock, [&] { return inbox_->stopping || inbox_->woken || !inbox_->entries.empty(); });
  inbox_->woken = false;
  for (Inbox::Entry& entry : inbox_->entries)
    loop_.submit(std::move(entry.submission), std::move(entry.channel), entry.most_tokens);
  inbox_->entries.clear();
  inbox_->stats = loop_.stats();  // nobody is ever in between: in neither the inbox nor the counts
  return !inbox_->stopping;
}

void Engine::run() {
  bool busy = false;
  while (take_inbox(!busy)) {
    const Result<bool> done = loop_.step();
    if (done) {
      busy = *done;
      continue;
    }
    log::error(fmt::format("the engine stops: {}", done.error().message));
    {
      const std::scoped_lock lock(inbox_->mutex);
      inbox_->fault = done.error();
    }
    take_inbox(false);  // what came in before the fault was known
    loop_.fail_all(done.error());
    return;
  }
  loop_.fail_all({ErrorKind::kUnavailable, "the engine is shutting down"});
}

}  // namespace inkstone::engine
