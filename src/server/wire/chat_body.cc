// SPDX-License-Identifier: Apache-2.0
#include "server/wire/chat_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace inkstone::server {

using chat::Field;
using chat::JsonValue;
using Kind = JsonValue::Kind;

JsonValue json_string(std::string_view text) {
  JsonValue value;
  value.kind = Kind::kString;
  value.text = std::string(text);
  return value;
}

JsonValue json_object(std::initializer_list<std::pair<std::string_view, JsonValue>> members) {
  JsonValue object;
  object.kind = Kind::kObject;
  for (const auto& [key, value] : members) object.members.push_back({std::string(key), value});
  return object;
}

void set_member(JsonValue& object, std::string_view key, JsonValue value) {
  for (chat::JsonMember& member : object.members)
    if (member.key == key) return void(member.value = std::move(value));
  object.members.push_back({std::string(key), std::move(value)});
}

ChatBody::ChatBody(const JsonValue& request, std::initializer_list<std::string_view> without) {
  body_.kind = Kind::kObject;
  messages_.kind = Kind::kArray;
  for (const chat::JsonMember& member : request.members)
    if (std::ranges::find(without, member.key) == without.end()) body_.members.push_back(member);
}

std::string Origins::of(std::string_view path) const {
  const auto take_index = [&path](std::string_view prefix) -> std::optional<std::size_t> {
    if (!path.starts_with(prefix)) return std::nullopt;
    const std::string_view digits = path.substr(prefix.size());
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end == digits.data() + digits.size() || *end != ']') return std::nullopt;
    path = digits.substr(static_cast<std::size_t>(end - digits.data()) + 1);
    return index;
  };
  const auto message = take_index("messages[");
  if (!message || *message >= messages_.size()) return "";
  const auto part = take_index(".content[");
  const Message& origin = messages_[*message];
  if (part && *part < origin.parts.size()) return origin.parts[*part] + std::string(path);
  if (!part || origin.content.empty()) return "";
  return fmt::format("{}[{}]{}", origin.content, *part, path);
}

void ChatBody::add_message(std::string_view role, JsonValue content, Origins::Message origin) {
  origins_.add(std::move(origin));
  messages_.items.push_back(json_object({{"role", json_string(role)}, {"content", std::move(content)}}));
}

JsonValue& ChatBody::open_assistant(bool for_part) {
  JsonValue* last = messages_.items.empty() ? nullptr : &messages_.items.back();
  const bool open = last != nullptr && last->find("role")->text == "assistant" &&
                    last->find("content")->kind == Kind::kArray &&
                    !(for_part && last->find("tool_calls") != nullptr);
  if (open) return *last;
  JsonValue parts;
  parts.kind = Kind::kArray;
  add_message("assistant", std::move(parts));
  return messages_.items.back();
}

void ChatBody::add_assistant_part(JsonValue part, std::string origin) {
  JsonValue& message = open_assistant(true);
  origins_.last().parts.push_back(std::move(origin));
  const auto content = std::ranges::find(message.members, "content", &chat::JsonMember::key);
  content->value.items.push_back(std::move(part));
}

void ChatBody::add_call(std::string_view id, std::string_view name, std::string_view arguments) {
  JsonValue& message = open_assistant(false);
  JsonValue call = json_object(
      {{"id", json_string(id)},
       {"type", json_string("function")},
       {"function", json_object({{"name", json_string(name)}, {"arguments", json_string(arguments)}})}});
  if (message.find("tool_calls") == nullptr) {
    JsonValue calls;
    calls.kind = Kind::kArray;
    set_member(message, "tool_calls", std::move(calls));
  }
  message.members.back().value.items.push_back(std::move(call));
}

void ChatBody::add_tool_result(std::string_view call_id, JsonValue content, std::string origin) {
  add_message("tool", std::move(content), {std::move(origin), {}});
  set_member(messages_.items.back(), "tool_call_id", json_string(call_id));
}

JsonValue ChatBody::take() {
  set("messages", std::move(messages_));
  return std::move(body_);
}

Result<JsonValue> translate_tools(const Field& tools, std::string_view schema_key) {
  JsonValue translated;
  translated.kind = Kind::kArray;
  for (const Field& tool : INK_TRY(tools.array())) {
    INK_TRY(tool.require_object());
    const std::string type = INK_TRY(tool["type"].string("function"));
    if (type != "function" && type != "custom")
      return tool["type"].refuse("only function tools are supported");
    JsonValue function = json_object({{"name", json_string(INK_TRY(tool["name"].string()))}});
    if (tool["description"].present()) set_member(function, "description", tool["description"].value());
    if (tool[schema_key].present()) set_member(function, "parameters", tool[schema_key].value());
    if (tool["strict"].present()) set_member(function, "strict", tool["strict"].value());
    translated.items.push_back(
        json_object({{"type", json_string("function")}, {"function", std::move(function)}}));
  }
  return translated;
}

Error in_terms_of(Error error, std::string_view field, const Origins& origins) {
  constexpr std::string_view kMessages = "messages";
  if (!error.message.starts_with(kMessages)) return error;
  const std::size_t colon = error.message.find(':');
  const std::string origin = origins.of(std::string_view(error.message).substr(0, colon));
  if (!origin.empty()) field = origin;
  if (colon != std::string::npos) error.message = std::string(field) + error.message.substr(colon);
  return error;
}

}  // namespace inkstone::server
