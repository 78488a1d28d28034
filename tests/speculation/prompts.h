// SPDX-License-Identifier: Apache-2.0
// tests/speculation/prompts.h - prompts that the mini was trained for: the recorded conversations, and the
// task sets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace inkstone::testing {

struct Prompt {
  std::string task;
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> answer;  // of the reference, greedy, its end token included
};

inline constexpr std::int32_t kEndId = 2007;

// Conversations without media whose prompts have at most `longest` ids.
std::vector<Prompt> recorded_prompts(std::int64_t longest);
// Of one task set: "facts", "reasoning".
std::vector<Prompt> task_prompts(const std::string& set);

}  // namespace inkstone::testing
