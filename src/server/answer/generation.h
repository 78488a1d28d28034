// SPDX-License-Identifier: Apache-2.0
// server/answer/generation.h - the answers of one request while they are generated: submissions go to the
// engine, tokens come back through tickets and are handed on the I/O thread to whoever writes the response.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/submission.h"
#include "server/http/exchange.h"
#include "server/service.h"
#include "server/wire/api_error.h"

namespace inkstone::server {

// `choice` counts the submissions of the request.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual void token(std::size_t choice, const engine::TokenEvent& event) = 0;
  virtual void ended(std::size_t choice, const engine::Outcome& outcome) = 0;
};

class Generation {
 public:
  Generation(Service& service, Exchange& exchange);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // All or none are submitted. The error says what to tell the client: 400, or 429 when too much is waiting.
  std::optional<ApiError> start(std::vector<engine::Submission> submissions);

  // Hands everything to `sink` and flushes the response after each batch of tokens, until all answers have
  // ended. When the client leaves, the answers are cancelled; the sink hears of their ends all the same.
  Task<> feed(AnswerSink& sink);

 private:
  using Clock = std::chrono::steady_clock;
  struct Answer {
    engine::Ticket ticket;
    bool ended = false;
    std::int64_t tokens = 0;
    Clock::time_point last{};  // token
  };

  void cancel();
  void take(std::size_t choice, AnswerSink& sink);
  void note_tokens(Answer& answer, std::int64_t count);

  Service& service_;
  Exchange& exchange_;
  std::shared_ptr<Signal> news_;
  std::vector<Answer> answers_;
  std::size_t num_running_ = 0;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace inkstone::server
