// SPDX-License-Identifier: Apache-2.0
// engine/engine.h - station 4 of docs/journey.md: takes submissions from any thread, gives a ticket for each,
// and runs the steps on a thread of its own.
#pragma once

#include <memory>
#include <thread>

#include "base/result.h"
#include "engine/engine_options.h"
#include "engine/model_runner.h"
#include "engine/step_loop.h"
#include "engine/submission.h"
#include "engine/ticket.h"

namespace inkstone::engine {

// What the model can take.
struct ModelLimits {
  std::int64_t vocabulary = 0;        // ids that may be fed
  std::int64_t valid_vocabulary = 0;  // ids that may be drawn
};

class Engine {
 public:
  // Starts the thread. `runner`'s storage has the sizes of cache_limits(runner.state_spec(), options).
  static Result<std::unique_ptr<Engine>> create(std::unique_ptr<ModelRunner> runner,
                                                const EngineOptions& options, const ModelLimits& limits);
  // Cancels what still runs.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread. Refuses what can never run, with numbers: an empty prompt, ids out of range, parameters out
  // of range, more tokens than the context or the cache ever has room for; and everything after a fault of
  // the device.
  Result<Ticket> submit(Submission submission);

  // As of the last step. Any thread.
  [[nodiscard]] EngineStats stats() const;
  [[nodiscard]] const EngineOptions& options() const { return options_; }

 private:
  struct Inbox;

  Engine(std::unique_ptr<ModelRunner> runner, const EngineOptions& options, const ModelLimits& limits);
  [[nodiscard]] Result<std::int64_t> check(const Submission& submission) const;
  void run();
  bool take_inbox(bool may_wait);

  std::unique_ptr<ModelRunner> runner_;
  EngineOptions options_;
  ModelLimits limits_;
  std::int64_t pool_tokens_ = 0;
  StepLoop loop_;                 // of the thread alone
  std::shared_ptr<Inbox> inbox_;  // tickets may outlive the engine
  std::thread thread_;
};

}  // namespace inkstone::engine
