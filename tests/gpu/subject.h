// SPDX-License-Identifier: Apache-2.0
// tests/gpu/subject.h - the shipped models on the backend under test, as the commands load them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/build_engine.h"
#include "model/probe.h"

namespace inkstone::gpu {

// "cuda", or what INKSTONE_TEST_BACKEND names.
std::string subject_backend();

// Loaded once per process and folder below models/.
const app::LoadedModel& subject(const std::string& folder = "inkling-mini");
// The same weights on the CPU in f32: where the margins of choices come from.
const app::LoadedModel& exact(const std::string& folder = "inkling-mini");

model::ProbeResult run(const app::LoadedModel& model, const model::ProbeRequest& request);

// Skips where the backend under test cannot run.
class OnDevice : public ::testing::Test {
 protected:
  void SetUp() override;
};

// One token of an answer with everything that the logits left of it: any change of a bit of a likely token's
// logit shows.
struct Drawn {
  std::int32_t id = 0;
  float logprob = 0;
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_logprobs;

  friend bool operator==(const Drawn&, const Drawn&) = default;
};

struct Answer {
  std::vector<Drawn> tokens;
  engine::Outcome outcome;
};

std::unique_ptr<engine::Engine> engine_of(const engine::EngineOptions& options);
// Greedy, with the 20 best log-probabilities, until max_tokens.
engine::Submission asked(std::vector<std::int32_t> prompt, std::int64_t max_tokens);
// All submitted at once.
std::vector<Answer> answers_of(engine::Engine& engine, const std::vector<engine::Submission>& submissions);
// The message names the first token that differs.
::testing::AssertionResult same(const Answer& actual, const Answer& expected);

}  // namespace inkstone::gpu
