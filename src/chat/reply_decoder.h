// SPDX-License-Identifier: Apache-2.0
// chat/reply_decoder.h - the ids of one model turn to a message. Ids come from the engine, one at a time and
// all of them, the last one included; deltas go to the server. Control tokens are known by id alone: text
// that spells one stays text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "chat/call_scanner.h"
#include "chat/reply.h"
#include "text/special_tokens.h"
#include "text/stop_strings.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace inkstone::chat {

// Any sequence of ids gives a message; there are no errors. Not thread-safe. The tokenizer must outlive it.
// Streaming and not streaming give the same message but for a call that is cut, or malformed after its name
// was sent.
class ReplyDecoder {
 public:
  // `prompt_ids` decide what the model was in the middle of.
  ReplyDecoder(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens, ReplyOptions options,
               std::span<const std::int32_t> prompt_ids);

  // Appends what became visible. Ids after the end of the turn are ignored.
  void push(std::int32_t id, std::vector<ReplyDelta>& deltas);

  // Once, after the last id. `cause` counts unless the turn has ended by itself: kLength, kAborted, or kStop.
  void finish(TurnEnd cause, std::vector<ReplyDelta>& deltas);

  // Not kNone: generation should stop; ids that were generated meanwhile are not part of the turn.
  [[nodiscard]] TurnEnd ended() const { return end_; }
  [[nodiscard]] const ReplyMessage& message() const { return message_; }

 private:
  enum class State : std::uint8_t {
    kBoundary,  // between blocks
    kHeader,    // after the author token: a function name, or an answer without a kind token
    kText,
    kThinking,
    kCall,
    kForeign,  // a block of another author, dropped
  };

  void take_special(std::int32_t id);
  void take_ordinary(std::int32_t id);
  void end_turn();
  [[nodiscard]] bool opens_block(std::int32_t id) const;
  [[nodiscard]] bool is_author(std::int32_t id) const;
  void open_block(std::int32_t id);
  void close_block();
  void take_header(std::string_view bytes);
  [[nodiscard]] bool may_be_name() const;
  void take_bytes(std::string_view bytes);
  void flush_utf8();
  void take_text(std::string_view text);  // of the current block
  void show(std::string_view text);       // visible text, watched for stop strings
  void end_visible_block();
  void begin_call();
  void stream_call();
  void finish_call();
  void report_call();
  void emit(ReplyDelta delta);
  void emit_reasoning(std::string text);

  const text::Tokenizer* tokenizer_;
  text::SpecialTokens tokens_;
  ReplyOptions options_;
  text::StopStrings stops_;
  State state_ = State::kBoundary;
  TurnEnd end_ = TurnEnd::kNone;
  std::string header_;
  text::Utf8Stream utf8_;
  CallScanner scanner_;
  bool call_dropped_ = false;
  bool call_reported_ = false;
  std::size_t num_complete_calls_ = 0;
  ReplyMessage message_;
  std::vector<ReplyDelta>* deltas_ = nullptr;  // of the call in progress
};

}  // namespace inkstone::chat
