// SPDX-License-Identifier: Apache-2.0
// server/metrics.h - what operators see of the server: counts and latencies in Prometheus' text format.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/step_loop.h"
#include "engine/submission.h"

namespace inkstone::server {

class Metrics {
 public:
  // `stats` is asked each time the text is made.
  explicit Metrics(std::function<engine::EngineStats()> stats);
  ~Metrics();

  // The I/O thread's.
  void request_answered(std::string_view endpoint, int status, double seconds);
  void first_token(double seconds);
  // `count` tokens came together, `seconds` behind those before.
  void next_tokens(std::int64_t count, double seconds);
  void answer_ended(const engine::Outcome& outcome);

  [[nodiscard]] std::string text() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace inkstone::server
