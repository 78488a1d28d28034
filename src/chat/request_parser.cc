// SPDX-License-Identifier: Apache-2.0
#include "chat/request_parser.h"

#include <fmt/format.h>

#include "chat/effort.h"
#include "chat/message_parser.h"
#include "chat/tool_parser.h"
#include "text/utf8.h"

namespace inkstone::chat {
namespace {

Status parse_conversation(const Field& body, ChatRequest& request) {
  const Field messages = body["messages"];
  if (!messages.present()) return messages.refuse("is missing");
  INK_TRY(parse_tools(body["tools"], request.tools));
  MessageParser parser;
  for (const Field& message : INK_TRY(messages.array())) {
    request.messages.push_back(INK_TRY(parser.parse(message, request.tools)));
  }
  if (request.messages.empty()) return messages.refuse("must not be empty");
  return {};
}

// Only a closed plain answer can be reopened: the text continues inside its block.
Status check_continuation(const Field& body, const ChatRequest& request) {
  const Message& last = request.messages.back();
  const Field messages = body["messages"];
  const bool plain = (*messages.array()).back()["content"].is_string();
  const bool only_text =
      last.parts.empty() || (last.parts.size() == 1 && last.parts[0].kind == Part::Kind::kText);
  if (last.role == Role::kAssistant && plain && only_text && last.calls.empty()) return {};
  return body["continue_final_message"].refuse(
      "the last message must be an assistant message with string content, without reasoning and tool calls");
}

Status parse_generation(const Field& body, ChatRequest& request) {
  request.add_generation_prompt = INK_TRY(body["add_generation_prompt"].boolean(true));
  request.continue_final_message = INK_TRY(body["continue_final_message"].boolean(false));
  request.parallel_tool_calls = INK_TRY(body["parallel_tool_calls"].boolean(true));
  if (request.continue_final_message) INK_TRY(check_continuation(body, request));
  return {};
}

Status parse_outputs(const Field& body, ChatRequest& request) {
  const bool include = INK_TRY(body["include_reasoning"].boolean(true));
  const bool separate = INK_TRY(body["separate_reasoning"].boolean(true));
  if (!separate) request.reasoning = ReasoningOutput::kInContent;
  if (!include) request.reasoning = ReasoningOutput::kHidden;
  const Field format = body["response_format"];
  if (format.present()) {
    INK_TRY(format.require_object());
    request.response_format = ordered_json(format.value());
  }
  return {};
}

// Switches of other model families: silence would let a client believe that thinking is off.
void warn_of_switches(const Field& body, ChatRequest& request) {
  const auto warn = [&](const std::string& name) {
    request.warnings.push_back(
        fmt::format("{} has no effect on this model; reasoning_effort is the only switch",
                    text::replace_invalid_utf8(std::string_view(name).substr(0, 100))));
  };
  for (const std::string_view name : {"enable_thinking", "thinking"}) {
    if (body[name].present()) warn(std::string(name));
  }
  const Field switches = body["chat_template_kwargs"];
  if (!switches.is_object()) return;
  for (const JsonMember& member : switches.value().members) {
    if (member.key != "reasoning_effort") warn("chat_template_kwargs." + member.key);
  }
}

}  // namespace

Result<ChatRequest> parse_chat_request(std::string_view json) {
  const JsonValue body = INK_TRY(parse_json(json, "request"));
  return parse_chat_request(Field(&body, ""));
}

Result<ChatRequest> parse_chat_request(const Field& body) {
  INK_TRY(body.require_object());
  ChatRequest request;
  INK_TRY(parse_conversation(body, request));
  request.tool_choice = INK_TRY(parse_tool_choice(body["tool_choice"], request.tools));
  request.effort = INK_TRY(effort_of_request(body));
  INK_TRY(parse_generation(body, request));
  INK_TRY(parse_outputs(body, request));
  warn_of_switches(body, request);
  return request;
}

}  // namespace inkstone::chat
