// SPDX-License-Identifier: Apache-2.0
#include "server/answer/generation.h"

#include <fmt/format.h>

#include <utility>

namespace inkstone::server {

Generation::Generation(Service& service, Exchange& exchange)
    : service_(service), exchange_(exchange), news_(std::make_shared<Signal>(service.loop)) {}

Generation::~Generation() {
  exchange_.when_gone({});
  service_.num_answers -= static_cast<std::int64_t>(answers_.size());
}

std::optional<ApiError> Generation::start(std::vector<engine::Submission> submissions) {
  const auto wanted = static_cast<std::int64_t>(submissions.size());
  const std::int64_t limit = service_.limits.max_answers;
  if (wanted > limit)
    return ApiError{400, fmt::format("the request asks for {} answers, the server allows {}", wanted, limit),
                    "n", ""};
  if (service_.num_answers + wanted > limit)
    return ApiError{
        429, fmt::format("{} answers are running or waiting, the limit is {}", service_.num_answers, limit),
        "", "queue_full"};
  answers_.reserve(submissions.size());
  for (engine::Submission& submission : submissions) {
    Result<engine::Ticket> ticket = service_.model.submit(std::move(submission));
    if (!ticket) {
      service_.num_answers -= static_cast<std::int64_t>(std::exchange(num_running_, 0));
      answers_.clear();  // cancels
      return to_api_error(ticket.error());
    }
    ticket->on_event([news = news_] { news->set(); });
    answers_.push_back({std::move(*ticket)});
    ++service_.num_answers;
    ++num_running_;
  }
  exchange_.when_gone([this] { cancel(); });
  return std::nullopt;
}

Task<> Generation::feed(AnswerSink& sink) {
  if (exchange_.gone()) cancel();
  while (true) {
    for (std::size_t choice = 0; choice < answers_.size(); ++choice) take(choice, sink);
    exchange_.flush();
    if (num_running_ == 0) break;
    co_await news_->wait();
  }
}

void Generation::cancel() {
  for (Answer& answer : answers_)
    if (!answer.ended) answer.ticket.cancel();
}

void Generation::take(std::size_t choice, AnswerSink& sink) {
  Answer& answer = answers_[choice];
  if (answer.ended) return;
  // Asked for first: once there is an outcome, no token comes any more.
  const std::optional<engine::Outcome> outcome = answer.ticket.try_outcome();
  std::int64_t count = 0;
  while (const std::optional<engine::TokenEvent> event = answer.ticket.try_next()) {
    sink.token(choice, *event);
    ++count;
  }
  if (count > 0) note_tokens(answer, count);
  if (!outcome) return;
  answer.ended = true;
  --num_running_;
  service_.metrics.answer_ended(*outcome);
  sink.ended(choice, *outcome);
}

void Generation::note_tokens(Answer& answer, std::int64_t count) {
  const Clock::time_point now = Clock::now();
  const auto seconds_since = [&](Clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  if (answer.tokens == 0) {
    service_.metrics.first_token(seconds_since(begin_));
  } else {
    service_.metrics.next_tokens(count, seconds_since(answer.last));
  }
  answer.tokens += count;
  answer.last = now;
}

}  // namespace inkstone::server
