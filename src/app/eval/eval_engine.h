// SPDX-License-Identifier: Apache-2.0
// app/eval/eval_engine.h - items of task sets through an engine of this process, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "app/build_engine.h"
#include "base/result.h"
#include "chat/chat_request.h"
#include "eval/answer.h"
#include "eval/task_set.h"

namespace inkstone::app {

struct EvalLimits {
  std::int64_t requests = 16;  // at a time
  std::int64_t max_tokens = 150;
  bool reuse_prefixes = true;
  DraftOptions drafts;
};

// An item ready to be asked.
struct Question {
  chat::ChatRequest request;
  std::vector<std::int32_t> prompt;
};

// Errors name the item. kUnsupported: the item has a picture or a sound.
Result<Question> make_question(const eval::Item& item, const FrontEnd& front);

// Asks all of them. `take` gets every answer, in the order of the questions, and may stop the run by an
// error.
using TakeAnswer = std::function<Status(std::size_t question_idx, const eval::Answer& answer)>;
Status ask(const LoadedModel& model, std::span<const Question> questions, const EvalLimits& limits,
           const TakeAnswer& take);

}  // namespace inkstone::app
