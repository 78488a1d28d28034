// SPDX-License-Identifier: Apache-2.0
#include "tests/speculation/prompts.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "app/front_end.h"
#include "base/check.h"
#include "chat/prompt_encoder.h"
#include "chat/request_parser.h"
#include "tests/support/golden_data.h"

namespace inkstone::testing {
namespace {

template <class T>
T value_of(Result<T> result) {
  INK_CHECK(result.has_value(), result ? "" : result.error().message);
  return std::move(*result);
}

}  // namespace

std::vector<Prompt> recorded_prompts(std::int64_t longest) {
  std::ifstream file(golden_path("transcripts.json"));
  std::vector<Prompt> prompts;
  for (const nlohmann::json& entry : nlohmann::json::parse(file)) {
    const auto task = entry["task"].get<std::string>();
    Prompt prompt{task, entry["prompt_ids"], entry["greedy_ids"]};
    const bool media = task == "image" || task == "audio";
    if (!media && static_cast<std::int64_t>(prompt.ids.size()) <= longest)
      prompts.push_back(std::move(prompt));
  }
  return prompts;
}

std::vector<Prompt> task_prompts(const std::string& set) {
  const app::FrontEnd front = value_of(app::load_front_end(source_path("models/inkling-mini")));
  const chat::PromptEncoder encoder(front.tokenizer, front.tokens);
  std::ifstream file(source_path("tests/data/evals/" + set + ".jsonl"));
  std::vector<Prompt> prompts;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json item = nlohmann::json::parse(line);
    const auto request = value_of(chat::parse_chat_request(item["request"].dump()));
    prompts.push_back({set, value_of(encoder.encode(request)).ids, item["reference"]["ids"]});
  }
  return prompts;
}

}  // namespace inkstone::testing
