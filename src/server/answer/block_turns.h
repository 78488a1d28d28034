// SPDX-License-Identifier: Apache-2.0
// server/answer/block_turns.h - an answer as a list of blocks (thinking, text, calls) in the order of their
// generation: the form of the dialects that are no chat completions. One answer per request.
#pragma once

#include <string>
#include <vector>

#include "server/answer/chat_turns.h"

namespace inkstone::server {

struct AnswerBlock {
  enum class Kind { kThinking, kText, kCall };
  Kind kind = Kind::kText;
  std::size_t idx = 0;  // in the answer
  std::string id;       // random, for dialects that name their blocks
  std::string text;     // of a call its arguments
  std::string call_id;  // kCall
  std::string name;     // kCall
};

class BlockTurns : public ChatTurns {
 public:
  using ChatTurns::ChatTurns;

 protected:
  // For streams: a block begins, grows, and is complete.
  virtual void block_opened(const AnswerBlock& /*block*/) {}
  virtual void block_grew(const AnswerBlock& /*block*/, std::string_view /*piece*/) {}
  virtual void block_closed(const AnswerBlock& /*block*/) {}

  [[nodiscard]] const std::vector<AnswerBlock>& blocks() const { return blocks_; }

 private:
  void delta(std::size_t choice, const chat::ReplyDelta& delta) final;
  void turn_ended(std::size_t choice) final;
  void open(AnswerBlock::Kind kind, const chat::ReplyDelta& delta);
  void close();

  std::vector<AnswerBlock> blocks_;
  bool open_ = false;  // the last one
};

}  // namespace inkstone::server
