// SPDX-License-Identifier: Apache-2.0
// eval/scoring.h - whether an answer is right. An item says by which rule; the rules are those of the suites
// that the adapters read.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/json_field.h"
#include "eval/answer.h"
#include "eval/call_matching.h"

namespace inkstone::eval {

enum class Verdict {
  kCorrect,
  kWrong,
  kNeedsJudge,  // no rule can tell: counted as not correct, and named in the report
};

// As the item's JSON has it. Without "scoring": kEqual to "expected".
struct ScoringRule {
  enum class Kind {
    kEqual,     // content and calls equal `expected`
    kContains,  // the content holds `answer`
    kChoice,    // the letter that the content ends up with is `answer` (MMMU-Pro, HLE)
    kWords,     // all words of `answer`, and none that only the other choices have (MMAU)
    kExact,     // a short answer equal to `answer` but for case, spaces and markup; numbers by value. A text
                // that differs may mean the same: kNeedsJudge (HLE)
    kCalls,     // the calls match `calls` (BFCL)
  };
  Kind kind = Kind::kEqual;
  Answer expected;
  std::string answer;
  std::vector<std::string> choices;  // their texts, A first
  CallRule calls;
};

// Of an item: "expected": {"content", "calls"}, or "scoring": {"kind", ...}. kCalls takes the declarations
// from the request's tools.
Result<ScoringRule> read_rule(const chat::Field& item);

Verdict score(const ScoringRule& rule, const Answer& answer);

// The letter of the choice that a text names, or 0 when it names none.
char chosen_letter(const std::string& content, const std::vector<std::string>& choices);
// What stands after the last "Answer:", else the whole text; without spaces around and without a final stop.
std::string final_answer(const std::string& content);

}  // namespace inkstone::eval
