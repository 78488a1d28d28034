// SPDX-License-Identifier: Apache-2.0
// tests/support/mini_engine.h - an engine over the shipped mini, and answers as values.
#pragma once

#include <string>
#include <vector>

#include "base/check.h"
#include "engine/decoder_runner.h"
#include "engine/engine.h"
#include "tests/support/mini_model.h"

namespace inkstone::engine {

struct Answer {
  std::vector<std::int32_t> ids;
  std::vector<float> logprobs;
  std::vector<std::int32_t> top_ids;  // of all tokens, one behind the other
  std::vector<float> top_logprobs;
  Outcome outcome;

  void add(const TokenEvent& event) {
    ids.push_back(event.id);
    logprobs.push_back(event.logprob);
    top_ids.insert(top_ids.end(), event.top_ids.begin(), event.top_ids.end());
    top_logprobs.insert(top_logprobs.end(), event.top_logprobs.begin(), event.top_logprobs.end());
  }
  friend bool operator==(const Answer& a, const Answer& b) {
    return a.ids == b.ids && a.logprobs == b.logprobs && a.top_ids == b.top_ids &&
           a.top_logprobs == b.top_logprobs;
  }
};

inline EngineOptions mini_options() {
  EngineOptions options;
  options.max_context_tokens = 1024;
  options.max_sequences = 4;
  options.cache_tokens = 4096;
  options.token_budget = 512;
  options.max_chunk_tokens = 512;
  options.integrity_checks = true;
  return options;
}

using RunnerWrap = std::function<std::unique_ptr<ModelRunner>(std::unique_ptr<ModelRunner>)>;

inline std::unique_ptr<Engine> mini_engine(testing::MiniModel& mini, const EngineOptions& options,
                                           const RunnerWrap& wrap = {}) {
  sampling::TokenMask forbidden(mini.config.valid_vocabulary);
  auto runner = DecoderRunner::create({&mini.config, &mini.weights, mini.backend.get()}, options, forbidden);
  INK_CHECK(runner.has_value(), runner ? "" : runner.error().message);
  const ModelLimits limits{mini.config.valid_vocabulary, mini.config.valid_vocabulary};
  std::unique_ptr<ModelRunner> wrapped = std::move(*runner);
  if (wrap) wrapped = wrap(std::move(wrapped));
  auto engine = Engine::create(std::move(wrapped), options, limits);
  INK_CHECK(engine.has_value(), engine ? "" : engine.error().message);
  return std::move(*engine);
}

inline Submission greedy(std::vector<std::int32_t> prompt, std::int64_t max_tokens) {
  Submission submission;
  submission.prompt = std::move(prompt);
  submission.sampling.temperature = 0;
  submission.sampling.max_tokens = max_tokens;
  submission.sampling.logprobs = 0;
  return submission;
}

inline Answer take_answer(Ticket& ticket) {
  Answer answer;
  while (const auto event = ticket.next()) answer.add(*event);
  answer.outcome = ticket.outcome();
  return answer;
}

inline std::vector<Answer> run_together(Engine& engine, const std::vector<Submission>& submissions) {
  std::vector<Ticket> tickets;
  for (const Submission& submission : submissions) {
    auto ticket = engine.submit(submission);
    INK_CHECK(ticket.has_value(), ticket ? "" : ticket.error().message);
    tickets.push_back(std::move(*ticket));
  }
  std::vector<Answer> answers;
  for (Ticket& ticket : tickets) answers.push_back(take_answer(ticket));
  return answers;
}

}  // namespace inkstone::engine
