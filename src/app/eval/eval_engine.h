// SPDX-License-Identifier: Apache-2.0
// app/eval/eval_engine.h - items of task sets through an engine of this process, several at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/build_engine.h"
#include "app/media_reader.h"
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
  std::vector<engine::MediaItem> media;
};

// Items to questions.
class QuestionMaker {
 public:
  // Media are named relative to `folder`. The model outlives the maker.
  QuestionMaker(const LoadedModel& model, std::string folder) : model_(model), folder_(std::move(folder)) {}

  // Errors name the item. kUnsupported: the model, or this program, does not take its media.
  Result<Question> make(const eval::Item& item);

 private:
  Result<Question> make_unnamed(const eval::Item& item);
  Result<ReadMedium> read(const chat::MediaReference& reference);

  const LoadedModel& model_;
  std::string folder_;
  ThreadPool pool_{0};
  std::optional<MediaReader> reader_;        // once there is something to read
  std::map<std::string, ReadMedium> media_;  // by path: sets use the same ones again
};

// Asks all of them. `take` gets every answer, in the order of the questions, and may stop the run by an
// error.
using TakeAnswer = std::function<Status(std::size_t question_idx, const eval::Answer& answer)>;
Status ask(const LoadedModel& model, std::span<const Question* const> questions, const EvalLimits& limits,
           const TakeAnswer& take);

}  // namespace inkstone::app
