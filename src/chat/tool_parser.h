// SPDX-License-Identifier: Apache-2.0
// chat/tool_parser.h - declared tools, calls in history, and the choice among tools, from a request's JSON.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "chat/chat_request.h"
#include "chat/json_field.h"

namespace inkstone::chat {

// Appends the entries of a `tools` array.
Status parse_tools(const Field& tools, std::vector<Tool>& out);

// `tool_choice`, checked against the tools.
Result<ToolChoice> parse_tool_choice(const Field& choice, const std::vector<Tool>& tools);

// `tool_calls` of an assistant message.
Result<std::vector<FunctionCall>> parse_calls(const Field& tool_calls);

// A string field that must be a function name.
Result<std::string> parse_function_name(const Field& field);

}  // namespace inkstone::chat
