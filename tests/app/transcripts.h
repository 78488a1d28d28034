// SPDX-License-Identifier: Apache-2.0
// tests/app/transcripts.h - the recorded conversations, and an engine as the commands build it.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/build_engine.h"
#include "base/check.h"

namespace inkstone::testing {

struct Transcript {
  std::size_t index = 0;  // in the file
  std::string task;
  std::vector<std::int32_t> prompt_ids;
  std::vector<std::int32_t> greedy_ids;
};

// Those of the given tasks, in the order of the file.
inline std::vector<Transcript> transcripts_of(const std::vector<std::string>& tasks) {
  std::ifstream file(INKSTONE_SOURCE_DIR "/tests/data/golden/transcripts.json");
  const nlohmann::json all = nlohmann::json::parse(file);
  std::vector<Transcript> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto task = all[i]["task"].get<std::string>();
    if (std::find(tasks.begin(), tasks.end(), task) != tasks.end())
      found.push_back({i, task, all[i]["prompt_ids"], all[i]["greedy_ids"]});
  }
  return found;
}

inline std::unique_ptr<app::LoadedModel> shipped_model() {
  app::CommonOptions options;
  options.model = INKSTONE_SOURCE_DIR "/models/inkling-mini";
  auto model = app::load_model(options);
  INK_CHECK(model.has_value(), model ? "" : model.error().message);
  return std::move(*model);
}

inline std::unique_ptr<engine::Engine> engine_over(const app::LoadedModel& model,
                                                   const engine::EngineOptions& options) {
  auto engine = app::build_engine(model, options);
  INK_CHECK(engine.has_value(), engine ? "" : engine.error().message);
  return std::move(*engine);
}

inline engine::Submission greedy_submission(const app::LoadedModel& model, std::vector<std::int32_t> prompt) {
  engine::Submission submission;
  submission.prompt = std::move(prompt);
  submission.sampling.temperature = 0;
  submission.sampling.max_tokens = 128;
  submission.end_ids = app::end_ids(model.front);
  return submission;
}

inline std::vector<std::int32_t> take_ids(engine::Ticket& ticket) {
  std::vector<std::int32_t> ids;
  while (const auto event = ticket.next()) ids.push_back(event->id);
  return ids;
}

}  // namespace inkstone::testing
