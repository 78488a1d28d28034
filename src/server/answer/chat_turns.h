// SPDX-License-Identifier: Apache-2.0
// server/answer/chat_turns.h - tokens of a chat answer to messages: what all dialects share. Each dialect
// derives the response it writes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/reply_decoder.h"
#include "server/answer/generation.h"
#include "server/chat_call.h"

namespace inkstone::server {

struct TurnUsage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t reasoning_tokens = 0;
};

class ChatTurns : public AnswerSink {
 public:
  ChatTurns(const ServedModel& model, const ChatCall& call);

  void token(std::size_t choice, const engine::TokenEvent& event) final;
  void ended(std::size_t choice, const engine::Outcome& outcome) final;

  // Before the first token, and behind the last.
  virtual void begin() {}
  virtual void finish() = 0;

 protected:
  struct Turn {
    chat::ReplyDecoder decoder;
    std::string logprobs{};  // JSON entries that no chunk has carried yet
    std::optional<std::int32_t> stop_id{};
    bool ended = false;
  };

  virtual void delta(std::size_t /*choice*/, const chat::ReplyDelta& /*delta*/) {}
  virtual void turn_ended(std::size_t /*choice*/) {}

  [[nodiscard]] const Turn& turn(std::size_t choice) const { return turns_[choice]; }
  [[nodiscard]] std::size_t num_turns() const { return turns_.size(); }
  [[nodiscard]] const chat::ReplyMessage& message(std::size_t choice) const {
    return turns_[choice].decoder.message();
  }
  [[nodiscard]] std::string take_logprobs(std::size_t choice);
  [[nodiscard]] TurnUsage usage() const;
  // Why there is no answer: the engine failed, or the server is ending.
  [[nodiscard]] const std::optional<ApiError>& fault() const { return fault_; }
  [[nodiscard]] const ServedModel& model() const { return model_; }
  [[nodiscard]] const ChatCall& call() const { return call_; }

 private:
  void hand_on(std::size_t choice);

  const ServedModel& model_;
  const ChatCall& call_;
  std::vector<Turn> turns_;
  std::vector<chat::ReplyDelta> deltas_;
  std::vector<engine::Usage> usages_;
  std::optional<ApiError> fault_;
};

// A response that cannot be: what the outcome of an answer tells the client.
std::optional<ApiError> fault_of(const engine::Outcome& outcome);

// prefix + 24 random letters and digits.
std::string random_name(std::string_view prefix);
std::int64_t unix_seconds();

}  // namespace inkstone::server
