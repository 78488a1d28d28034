// SPDX-License-Identifier: Apache-2.0
// chat/reply.h - what a model's turn becomes: the message as a whole, and the pieces in which it is streamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "chat/chat_request.h"

namespace inkstone::chat {

// One piece of one kind. In generation order; joined, the pieces give the message.
struct ReplyDelta {
  enum class Kind { kReasoning, kContent, kCallStart, kCallArguments };
  Kind kind = Kind::kContent;
  std::string text;          // all but kCallStart; of kCallArguments a piece of the JSON text
  std::size_t call_idx = 0;  // calls: counts from 0
  std::string call_id;       // kCallStart
  std::string name;          // kCallStart
};

struct ReplyCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text of an object, exactly as generated
  bool complete =
      true;  // false only while streaming: the client saw a call that was cut or turned out malformed
};

enum class TurnEnd {
  kNone,       // still running
  kEndOfTurn,  // the model ended its turn
  kStop,       // a stop string or a stop id of the request
  kLength,     // the token limit or the context
  kAborted,
};

enum class FinishReason { kStop, kLength, kToolCalls, kAborted };

// As the OpenAI field: "stop", "length", "tool_calls"; an aborted turn says "abort".
const char* spell(FinishReason reason);

struct ReplyMessage {
  std::string content;    // empty: null
  std::string reasoning;  // empty: absent
  std::vector<ReplyCall> tool_calls;
  FinishReason finish_reason = FinishReason::kStop;  // valid after finish()
  std::string matched_stop;                          // the stop string that ended the turn
  std::int64_t num_ids = 0;                          // all ids taken, special ones and the last one included
  std::int64_t num_reasoning_ids = 0;                // those strictly inside thinking blocks
  std::int64_t num_dropped_ids = 0;                  // special ids without a meaning where they stood
};

struct ReplyOptions {
  // While streaming, a call is reported as it arrives; else only when it is complete and well formed.
  bool streaming = false;
  bool tools_offered = false;                                       // an open header may be a function name
  bool drop_calls = false;                                          // tool_choice "none"
  std::size_t max_calls = std::numeric_limits<std::size_t>::max();  // complete ones; further ones are dropped
  bool ignore_end_of_turn = false;
  ReasoningOutput reasoning = ReasoningOutput::kSeparate;
  std::vector<std::string> stop;  // valid by text::validate_stop_strings; matched in visible text only
  bool keep_stop = false;         // the stop string stays in the content
  std::vector<std::int32_t> stop_ids;
  std::function<std::string()> make_call_id;  // empty: random ids
};

// What the request says about its reply; stops and streaming are left to the caller.
ReplyOptions reply_options(const ChatRequest& request);

// "call_" and 24 random letters and digits. Thread-safe.
std::string random_call_id();

}  // namespace inkstone::chat
