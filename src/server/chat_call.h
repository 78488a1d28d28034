// SPDX-License-Identifier: Apache-2.0
// server/chat_call.h - station 2 of docs/journey.md: a chat body, checked and encoded, ready to be submitted.
// What other dialects ask is translated into the same body first. Made on a worker.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/chat_request.h"
#include "chat/reply.h"
#include "server/service.h"
#include "server/wire/request_fields.h"

namespace inkstone::server {

struct ChatCall {
  chat::ChatRequest request;
  AnswerFields fields;
  MediaRules media_rules;
  std::vector<std::int32_t> prompt;  // empty until complete_call (server/chat_media.h), where there are media
  std::vector<engine::MediaItem> media;  // of the prompt
  AnswerGrammars::Automaton form;        // none: free
  std::vector<std::string> warnings;     // what the client sent without effect
};

// `body` as OpenAI's chat completions.
Result<ChatCall> prepare_chat(Service& service, const chat::Field& body);
// The same from text; a body that is no JSON is an error that names the number at fault, where there is one.
Result<ChatCall> prepare_chat(Service& service, std::string_view body);

// For every endpoint: a body that must be a JSON object.
Result<chat::JsonValue> parse_body(std::string_view body);
// Members of `body` beside those of every answer and `names` become warnings, or an error where the server is
// strict.
Status warn_of_unknown(const Service& service, const chat::Field& body,
                       std::span<const std::string_view> names, std::vector<std::string>& warnings);
// kNotFound when the request names a model that is not served.
Status check_model(const ServedModel& model, const chat::Field& body);

// One for each of the request's answers.
std::vector<engine::Submission> submissions_of(const ServedModel& model, const ChatCall& call);

chat::ReplyOptions reply_options_of(const ChatCall& call);

// As one header value: safe bytes only, bounded.
std::string warning_header(std::span<const std::string> warnings);

}  // namespace inkstone::server
