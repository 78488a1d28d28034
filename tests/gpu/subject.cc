// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/check.h"
#include "tests/support/golden_data.h"

namespace inkstone::gpu {
namespace {

const app::LoadedModel& loaded(const std::string& folder, const std::string& backend) {
  // Lives until exit, as the device does.
  static auto& models = *new std::map<std::string, std::unique_ptr<app::LoadedModel>>();
  std::unique_ptr<app::LoadedModel>& model = models[folder + " on " + backend];
  if (!model) {
    app::CommonOptions options;
    options.model = testing::source_path("models/" + folder);
    options.backend = backend;
    auto made = app::load_model(options);
    INK_CHECK(made.has_value(), made ? "" : made.error().message);
    model = std::move(*made);
  }
  return *model;
}

Answer take_answer(engine::Ticket& ticket) {
  Answer answer;
  while (const auto event = ticket.next())
    answer.tokens.push_back({event->id, event->logprob, event->top_ids, event->top_logprobs});
  answer.outcome = ticket.outcome();
  INK_CHECK(answer.outcome.reason != engine::FinishReason::kFailed, answer.outcome.error.message);
  return answer;
}

}  // namespace

std::string subject_backend() {
  const char* named = std::getenv("INKSTONE_TEST_BACKEND");
  return named != nullptr ? named : "cuda";
}

const app::LoadedModel& subject(const std::string& folder) { return loaded(folder, subject_backend()); }

const app::LoadedModel& exact(const std::string& folder) { return loaded(folder, "cpu"); }

model::ProbeResult run(const app::LoadedModel& model, const model::ProbeRequest& request) {
  auto result = model::Probe(model.config(), model.weights, *model.backend).run(request);
  INK_CHECK(result.has_value(), result ? "" : result.error().message);
  return std::move(*result);
}

void OnDevice::SetUp() {
  const std::vector<std::string> usable = app::usable_backends();
  if (std::find(usable.begin(), usable.end(), subject_backend()) == usable.end())
    GTEST_SKIP() << "no " << subject_backend() << " here";
}

std::unique_ptr<engine::Engine> engine_of(const engine::EngineOptions& options) {
  auto engine = app::build_engine(subject(), options);
  INK_CHECK(engine.has_value(), engine ? "" : engine.error().message);
  return std::move(*engine);
}

engine::Submission asked(std::vector<std::int32_t> prompt, std::int64_t max_tokens) {
  engine::Submission submission;
  submission.prompt = std::move(prompt);
  submission.sampling.temperature = 0;
  submission.sampling.max_tokens = max_tokens;
  submission.sampling.logprobs = 20;
  return submission;
}

std::vector<Answer> answers_of(engine::Engine& engine, const std::vector<engine::Submission>& submissions) {
  std::vector<engine::Ticket> tickets;
  for (const engine::Submission& submission : submissions) {
    auto ticket = engine.submit(submission);
    INK_CHECK(ticket.has_value(), ticket ? "" : ticket.error().message);
    tickets.push_back(std::move(*ticket));
  }
  std::vector<Answer> answers;
  for (engine::Ticket& ticket : tickets) answers.push_back(take_answer(ticket));
  return answers;
}

::testing::AssertionResult same(const Answer& actual, const Answer& expected) {
  if (actual.tokens.size() != expected.tokens.size())
    return ::testing::AssertionFailure()
           << actual.tokens.size() << " tokens instead of " << expected.tokens.size();
  for (std::size_t i = 0; i < actual.tokens.size(); ++i) {
    const Drawn& a = actual.tokens[i];
    const Drawn& b = expected.tokens[i];
    if (a == b) continue;
    return ::testing::AssertionFailure() << fmt::format("token {}: id {} ({:.9g}) instead of {} ({:.9g})", i,
                                                        a.id, a.logprob, b.id, b.logprob);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace inkstone::gpu
