// SPDX-License-Identifier: Apache-2.0
// bench/serve/serve_bench.h - what the server costs by itself: HTTP, streams and the loop around a model that
// computes nothing. The load comes from the calling process; the server is another one.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace inkstone::bench {

struct ServeLoad {
  std::uint16_t port = 0;
  std::int64_t connections = 64;  // each asks again as soon as it has its answer
  std::int64_t prompt_tokens = 32;
  std::int64_t answer_tokens = 512;  // one event each
  double seconds = 5;
  double warmup_seconds = 1;
};

struct ServeReport {
  std::int64_t answers = 0;
  std::int64_t tokens = 0;
  std::int64_t wrong_answers = 0;  // not with the number of events asked for
  double seconds = 0;
  double answers_per_second = 0;
  double tokens_per_second = 0;
  double first_token_ms_p50 = 0, first_token_ms_p99 = 0;
  double gap_ms_p50 = 0, gap_ms_p99 = 0;
};

// Streams chat completions from a server on loopback. Counts what ends within the time.
Result<ServeReport> run_load(const ServeLoad& load);

// Keeps the calling thread, and those that it starts, on one of the cores that the process may use: the
// server on the first, the load on the second. Does nothing where there is only one.
void use_core(int index);

// Our server with a stub behind it, in a child process: call it while the process has one thread. Ended by
// the destructor.
class StubServer {
 public:
  // `folder`: a checkpoint, for its tokenizer.
  static Result<StubServer> start(const std::string& folder, std::int64_t sequences);
  StubServer(StubServer&& other) noexcept : process_(other.process_), port_(other.port_) {
    other.process_ = -1;
  }
  StubServer& operator=(StubServer&&) = delete;
  ~StubServer();
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  StubServer(int process, std::uint16_t port) : process_(process), port_(port) {}
  int process_;
  std::uint16_t port_;
};

}  // namespace inkstone::bench
