// SPDX-License-Identifier: Apache-2.0
// server/wire/chat_body.h - other dialects translated: builds the body of an OpenAI chat request from the
// items of a Responses or Messages request, so that one parser judges them all.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "chat/json_field.h"

namespace inkstone::server {

chat::JsonValue json_string(std::string_view text);
chat::JsonValue json_object(std::initializer_list<std::pair<std::string_view, chat::JsonValue>> members);
void set_member(chat::JsonValue& object, std::string_view key, chat::JsonValue value);

// Where the content of translated messages stood in the client's request.
class Origins {
 public:
  struct Message {
    std::string content;             // an array's elements stand below it
    std::vector<std::string> parts;  // or each somewhere else
  };

  void add(Message message) { messages_.push_back(std::move(message)); }
  Message& last() { return messages_.back(); }
  // "messages[2].content[0].image_url.url" in the client's words; empty where they are not known.
  [[nodiscard]] std::string of(std::string_view path) const;

 private:
  std::vector<Message> messages_;
};

class ChatBody {
 public:
  // Starts with the members of `request` but for those named.
  ChatBody(const chat::JsonValue& request, std::initializer_list<std::string_view> without);

  void set(std::string_view key, chat::JsonValue value) { set_member(body_, key, std::move(value)); }
  // `content`: a string or an array of parts.
  void add_message(std::string_view role, chat::JsonValue content, Origins::Message origin = {});
  // Parts and calls of the assistant that follow each other become one message; a part behind a call begins
  // another.
  void add_assistant_part(chat::JsonValue part, std::string origin = "");
  void add_call(std::string_view id, std::string_view name, std::string_view arguments);
  void add_tool_result(std::string_view call_id, chat::JsonValue content, std::string origin = "");

  chat::JsonValue take();
  [[nodiscard]] const Origins& origins() const { return origins_; }

 private:
  chat::JsonValue& open_assistant(bool for_part);

  chat::JsonValue body_;
  chat::JsonValue messages_;
  Origins origins_;  // of messages_
};

// A translated request.
struct ChatBodyOf {
  chat::JsonValue body;
  Origins origins;
};

// {"type": "function", "function": {...}} from the flat forms of both dialects; `schema_key` holds the
// parameters.
Result<chat::JsonValue> translate_tools(const chat::Field& tools, std::string_view schema_key);

// An error about the translated body, told in terms of the client's: what was wrong with messages was where
// `origins` says, or in `field`.
Error in_terms_of(Error error, std::string_view field, const Origins& origins);

}  // namespace inkstone::server
