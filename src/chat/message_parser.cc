// SPDX-License-Identifier: Apache-2.0
#include "chat/message_parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/content_parser.h"
#include "chat/tool_parser.h"
#include "text/utf8.h"

namespace inkstone::chat {
namespace {

// The reasoning of a string field; empty: none.
Result<std::string> reasoning_of(const Field& message) {
  std::string first = INK_TRY(message["reasoning_content"].string());
  std::string second = INK_TRY(message["reasoning"].string());
  return first.empty() ? second : first;
}

}  // namespace

Result<Message> MessageParser::parse(const Field& field, std::vector<Tool>& tools) {
  INK_TRY(field.require_object());
  const Field role = field["role"];
  if (!role.present()) return role.refuse("is missing");
  const std::string name = INK_TRY(role.string());
  if (name == "assistant") return parse_assistant(field);
  if (name == "tool" || name == "function") return parse_tool_result(field);
  Message message;
  if (name == "system" || name == "developer") {
    message.role = Role::kSystem;
  } else if (name != "user") {
    return role.refuse(fmt::format("unknown role '{}'", text::replace_invalid_utf8(name.substr(0, 40))));
  }
  if (name == "developer") INK_TRY(parse_tools(field["tools"], tools));
  message.parts = INK_TRY(parse_content(field["content"], message.role));
  return message;
}

Result<Message> MessageParser::parse_assistant(const Field& field) {
  Message message;
  message.role = Role::kAssistant;
  message.parts = INK_TRY(parse_content(field["content"], Role::kAssistant));
  const std::string reasoning = INK_TRY(reasoning_of(field));
  const auto is_thinking = [](const Part& part) { return part.kind == Part::Kind::kThinking; };
  if (!reasoning.empty()) {
    if (std::any_of(message.parts.begin(), message.parts.end(), is_thinking)) {
      return field.refuse("has reasoning both as a field and as content parts");
    }
    message.parts.insert(message.parts.begin(), {Part::Kind::kThinking, reasoning, {}});
  }
  message.calls = INK_TRY(parse_calls(field["tool_calls"]));
  for (const FunctionCall& call : message.calls) {
    if (!call.id.empty()) name_of_call_[call.id] = call.name;
  }
  return message;
}

Result<Message> MessageParser::parse_tool_result(const Field& field) {
  Message message;
  message.role = Role::kTool;
  message.parts = INK_TRY(parse_content(field["content"], Role::kTool));
  // A result always shows, even an empty one.
  if (message.parts.empty()) message.parts.push_back({Part::Kind::kText, "", {}});
  const std::string own_name = INK_TRY(field["name"].string());
  const std::string call_id = INK_TRY(field["tool_call_id"].string());
  if (!own_name.empty()) {
    message.name = INK_TRY(parse_function_name(field["name"]));
  } else if (const auto found = name_of_call_.find(call_id); found != name_of_call_.end()) {
    message.name = found->second;
  }
  return message;
}

}  // namespace inkstone::chat
