// SPDX-License-Identifier: Apache-2.0
// chat/request_parser.h - OpenAI chat JSON to a ChatRequest. Input comes from server/ or a command line;
// sampling fields are none of its business and are ignored here.
#pragma once

#include <string_view>

#include "base/result.h"
#include "chat/chat_request.h"
#include "chat/json_field.h"

namespace inkstone::chat {

// Errors are kInvalidArgument and start with the path of the field at fault: "messages[1].role: unknown role
// 'x'".
Result<ChatRequest> parse_chat_request(std::string_view json);

// For callers that have parsed the body already.
Result<ChatRequest> parse_chat_request(const Field& body);

}  // namespace inkstone::chat
