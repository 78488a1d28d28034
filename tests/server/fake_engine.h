// SPDX-License-Identifier: Apache-2.0
// tests/server/fake_engine.h - stands behind ServedModel: gives scripted tokens through real tickets, on a
// thread of its own, one token of every request in turn, as the engine does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/step_loop.h"
#include "engine/submission.h"
#include "engine/ticket.h"

namespace inkstone::test_support {

class FakeEngine {
 public:
  FakeEngine();
  ~FakeEngine();

  // What the next submissions answer. The ids are drawn in order; behind the last the answer goes on with it.
  using Script = std::function<std::vector<std::int32_t>(const engine::Submission&)>;
  void set_script(Script script);
  void set_step_time(std::chrono::microseconds time);  // default 0
  void hold(bool held);                                // no request advances
  // Requests end with an error, as behind a fault of the device; negative: never.
  void fail_after(std::int64_t tokens);
  void refuse_with(Error error);  // submissions fail

  Result<engine::Ticket> submit(engine::Submission submission);
  [[nodiscard]] engine::EngineStats stats() const;
  [[nodiscard]] engine::Submission last_submission() const;
  [[nodiscard]] std::int64_t cancelled() const;
  [[nodiscard]] std::int64_t steps() const;

 private:
  struct Request;
  void run();
  static std::int32_t draw(Request& request);
  bool advance(Request& request);  // false: it has ended

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Request>> requests_;
  Script script_;
  engine::Submission last_;
  std::chrono::microseconds step_time_{0};
  bool held_ = false;
  bool stopping_ = false;
  std::int64_t fail_after_ = -1;
  bool failed_ = false;
  std::optional<Error> refusal_;
  std::int64_t cancelled_ = 0;
  std::int64_t steps_ = 0;
  std::thread thread_;
};

}  // namespace inkstone::test_support
