// SPDX-License-Identifier: Apache-2.0
// eval/call_matching.h - whether calls match those of an item of the Berkeley Function-Calling Leaderboard,
// whose answers list the values that each parameter may have.
// Source of facts: the leaderboard's checker of syntax trees for Python (bfcl_eval, ast_checker).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/json_field.h"
#include "eval/answer.h"

namespace inkstone::eval {

// One call that is expected.
struct AcceptedCall {
  std::string name;
  chat::JsonValue values;      // an object: parameter -> list of values; "" in the list: may be left out
  chat::JsonValue parameters;  // the function's declared schema
};

struct CallRule {
  bool any = false;  // at least one call, whatever it is (the suite's "relevance")
  std::vector<AcceptedCall> accepted;
};

// "accept": [{"name": {"parameter": [values]}}], or "any": true. `tools` as in an OpenAI request.
Result<CallRule> read_call_rule(const chat::Field& rule, const chat::Field& tools);

// As many calls as accepted ones, each matching another one, in any order.
bool calls_match(const CallRule& rule, const std::vector<Call>& calls);

}  // namespace inkstone::eval
