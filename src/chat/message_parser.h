// SPDX-License-Identifier: Apache-2.0
// chat/message_parser.h - the messages of a request, in order.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "chat/chat_request.h"
#include "chat/json_field.h"

namespace inkstone::chat {

// Remembers the calls seen so far, because a result finds its function's name by the call's id.
class MessageParser {
 public:
  // Tools of developer messages are appended to `tools`.
  Result<Message> parse(const Field& field, std::vector<Tool>& tools);

 private:
  Result<Message> parse_assistant(const Field& field);
  Result<Message> parse_tool_result(const Field& field);

  std::unordered_map<std::string, std::string> name_of_call_;  // a repeated id takes the later name
};

}  // namespace inkstone::chat
