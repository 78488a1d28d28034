// SPDX-License-Identifier: Apache-2.0
#include "server/answer/chat_turns.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "server/wire/token_logprobs.h"

namespace inkstone::server {

ChatTurns::ChatTurns(const ServedModel& model, const ChatCall& call) : model_(model), call_(call) {
  const auto choices = static_cast<std::size_t>(call.fields.choices);
  usages_.resize(choices);
  turns_.reserve(choices);
  for (std::size_t choice = 0; choice < choices; ++choice)
    turns_.push_back(
        {chat::ReplyDecoder(*model.tokenizer, model.tokens, reply_options_of(call), call.prompt)});
}

void ChatTurns::token(std::size_t choice, const engine::TokenEvent& event) {
  Turn& turn = turns_[choice];
  if (call_.fields.sampling.logprobs) {
    if (!turn.logprobs.empty()) turn.logprobs += ',';
    turn.logprobs += chat_logprob_json(*model_.tokenizer, event);
  }
  turn.decoder.push(event.id, deltas_);
  hand_on(choice);
}

void ChatTurns::ended(std::size_t choice, const engine::Outcome& outcome) {
  if (std::optional<ApiError> fault = fault_of(outcome)) fault_ = std::move(fault);
  Turn& turn = turns_[choice];
  const bool length = outcome.reason == engine::FinishReason::kLength;
  const bool stop = outcome.reason == engine::FinishReason::kStop;
  turn.decoder.finish(length ? chat::TurnEnd::kLength
                      : stop ? chat::TurnEnd::kStop
                             : chat::TurnEnd::kAborted,
                      deltas_);
  hand_on(choice);
  turn.stop_id = outcome.stop_id;
  turn.ended = true;
  usages_[choice] = outcome.usage;
  turn_ended(choice);
}

void ChatTurns::hand_on(std::size_t choice) {
  for (const chat::ReplyDelta& delta : deltas_) this->delta(choice, delta);
  deltas_.clear();
}

std::string ChatTurns::take_logprobs(std::size_t choice) {
  return std::exchange(turns_[choice].logprobs, {});
}

TurnUsage ChatTurns::usage() const {
  TurnUsage usage;
  usage.prompt_tokens = static_cast<std::int64_t>(call_.prompt.size());
  // The first answer: the others may have found its prompt in the cache.
  usage.cached_tokens = usages_.front().cached_tokens;
  for (std::size_t choice = 0; choice < turns_.size(); ++choice) {
    const chat::ReplyMessage& message = turns_[choice].decoder.message();
    usage.completion_tokens += turns_[choice].ended ? usages_[choice].completion_tokens : message.num_ids;
    usage.reasoning_tokens += message.num_reasoning_ids;
  }
  return usage;
}

std::optional<ApiError> fault_of(const engine::Outcome& outcome) {
  if (outcome.reason == engine::FinishReason::kFailed) return to_api_error(outcome.error);
  if (outcome.reason == engine::FinishReason::kCancelled)
    return ApiError{503, "the answer was cancelled", "", ""};
  return std::nullopt;
}

// Names tell answers apart; they are no secrets. The system's source of randomness would take 10 us a letter.
std::string random_name(std::string_view prefix) {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr int kLetters = 24;
  static thread_local std::mt19937_64 source{sampling::random_seed()};
  std::uniform_int_distribution<std::size_t> pick(0, kAlphabet.size() - 1);
  std::string name(prefix);
  for (int idx = 0; idx < kLetters; ++idx) name += kAlphabet[pick(source)];
  return name;
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace inkstone::server
