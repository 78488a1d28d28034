// SPDX-License-Identifier: Apache-2.0
// eval/answer.h - what a model said to one item, in the form in which answers are compared: null is "", the
// arguments of calls are decoded, calls have no ids.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/json_field.h"
#include "chat/reply.h"

namespace inkstone::eval {

struct Call {
  std::string name;
  std::string arguments;  // canonical JSON; what is no JSON stays as it was generated

  friend bool operator==(const Call&, const Call&) = default;
};

struct Answer {
  std::int64_t prompt_tokens = 0;  // of the request; 0: not known
  std::vector<std::int32_t> ids;   // as generated, the end token included; empty: not known
  std::string reasoning;
  std::string content;
  std::vector<Call> calls;
};

// `arguments` as JSON text.
Call make_call(std::string name, std::string_view arguments);
Answer answer_of(std::vector<std::int32_t> ids, const chat::ReplyMessage& message);

// The names of the fields that differ: reasoning, content, calls, and ids where both are known.
std::vector<std::string> differing_fields(const Answer& a, const Answer& b);

// {"prompt_tokens": 30, "ids": [...], "reasoning": "...", "content": "...", "calls": [{"name": "...",
// "arguments": {...}}]}; absent fields are empty.
Result<Answer> read_answer(const chat::Field& field);
nlohmann::ordered_json to_json(const Answer& answer);

}  // namespace inkstone::eval
