// SPDX-License-Identifier: Apache-2.0
// eval/task_set.h - a folder of task sets: one file NAME.jsonl a set, one JSON object a line.
//
//   id             names the item within its set
//   request        OpenAI chat form; media relative to the folder (`image_url.url`, `input_audio.file`)
//   prompt_tokens  optional: media slots and the generation prompt counted
//   expected       {"content", "calls"}; or `scoring`, see eval/scoring.h
//   reference      optional: what the reference answers: {"ids", "reasoning", "content", "calls", "correct"}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "eval/answer.h"
#include "eval/scoring.h"

namespace inkstone::eval {

struct Reference {
  Answer answer;
  bool correct = false;
};

struct Item {
  std::string id;
  std::string request;  // JSON, members in the order of the file
  std::optional<std::int64_t> prompt_tokens;
  ScoringRule rule;
  std::optional<Reference> reference;
};

struct TaskSet {
  std::string name;
  std::vector<Item> items;  // at least one
};

// Errors name file and line: kInvalidArgument, kCorrupt.
Result<TaskSet> read_task_set(const std::string& path);
// Sets by name, or all of the folder in order of their names. kNotFound says which there are.
Result<std::vector<TaskSet>> read_task_sets(const std::string& folder, const std::vector<std::string>& names);

}  // namespace inkstone::eval
