// SPDX-License-Identifier: Apache-2.0
// POST /tokenize, /detokenize and /render: text to ids and back, and what a chat request becomes, without the
// engine.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <span>

#include "chat/request_parser.h"
#include "server/chat_call.h"
#include "server/chat_media.h"
#include "server/endpoints.h"
#include "server/wire/api_error.h"
#include "server/wire/json_writer.h"

namespace inkstone::server {
namespace {

using chat::Field;
using Answer = Result<std::string>;  // the body of the response

void write_ids(JsonWriter& json, std::string_view key, std::span<const std::int32_t> ids) {
  json.key(key).open_array();
  for (const std::int32_t id : ids) json.integer(id);
  json.close_array();
}

// What an endpoint is asked: the body, and the prompt of its messages.
struct TextCall {
  chat::JsonValue parsed;
  ChatCall chat;
  [[nodiscard]] Field body() const { return {&parsed, ""}; }
};

enum class Messages { kNone, kWhereGiven, kWanted };

Result<TextCall> read_call(const Service& service, std::string_view text, Messages messages) {
  TextCall call;
  call.parsed = INK_TRY(parse_body(text));
  const Field body = call.body();
  INK_TRY(check_model(service.model, body));
  if (messages == Messages::kNone || (messages == Messages::kWhereGiven && !body["messages"].present()))
    return call;
  call.chat.request = INK_TRY(chat::parse_chat_request(body));
  call.chat.media_rules = INK_TRY(read_media_rules(body));
  INK_TRY(check_media(service, call.chat.request));
  return call;
}

// A prompt that users build by hand: special tokens are recognised unless the request says otherwise.
Result<std::vector<std::int32_t>> encode_prompt(const Service& service, const Field& body) {
  const Field prompt = body["prompt"];
  if (!prompt.is_string()) return prompt.refuse("must be a string, or messages must be given");
  const bool specials = INK_TRY(body["add_special_tokens"].boolean(true));
  const text::Tokenizer& tokenizer = *service.model.tokenizer;
  return specials ? tokenizer.encode_with_specials(prompt.value().text)
                  : tokenizer.encode_ordinary(prompt.value().text);
}

Answer tokenize_body(const Service& service, const TextCall& call) {
  const Field body = call.body();
  const bool chat = body["messages"].present();
  const std::vector<std::int32_t> ids = chat ? call.chat.prompt : INK_TRY(encode_prompt(service, body));
  const bool texts = INK_TRY(body["return_token_strs"].boolean(false));
  std::string out;
  JsonWriter json(out);
  json.open_object();
  write_ids(json, "tokens", ids);
  json.key("count").integer(static_cast<std::int64_t>(ids.size()));
  json.key("max_model_len").integer(service.model.max_context_tokens);
  if (texts) {
    json.key("token_strs").open_array();
    for (const std::int32_t id : ids) json.string(service.model.encoder->spell(std::span(&id, 1)));
    json.close_array();
  }
  json.close_object();
  return out;
}

Answer detokenize_body(const Service& service, const TextCall& call) {
  const Field tokens = call.body()["tokens"];
  if (!tokens.is_array()) return tokens.refuse("must be an array of token ids");
  const std::vector<std::int32_t> ids = INK_TRY(read_ids(tokens));
  for (std::size_t idx = 0; idx < ids.size(); ++idx)
    if (!service.model.tokenizer->is_known(ids[idx]))
      return invalid(fmt::format("tokens[{}]: there is no token {}", idx, ids[idx]));
  std::string out;
  JsonWriter json(out);
  json.open_object().key("prompt").string(
      service.model.tokenizer->decode(ids, text::Tokenizer::Specials::kSpell));
  json.close_object();
  return out;
}

Answer render_body(const Service& service, const TextCall& call) {
  const std::vector<std::int32_t>& ids = call.chat.prompt;
  std::string out;
  JsonWriter json(out);
  json.open_object();
  write_ids(json, "ids", ids);
  json.key("text").string(service.model.encoder->spell(ids)).close_object();
  return out;
}

Task<> answer_with(Service& service, Exchange& exchange, Messages messages,
                   Answer (*make)(const Service&, const TextCall&)) {
  Result<TextCall> call;
  const std::function<void()> read = [&] { call = read_call(service, exchange.request().body, messages); };
  co_await service.workers.run(read);
  if (call && !call->chat.request.messages.empty()) {
    const Status done = co_await complete_call(service, call->chat);
    if (!done) call = tl::unexpected(done.error());
  }
  if (!call) co_return exchange.respond(openai_error(to_api_error(call.error())));
  Answer answer;
  const std::function<void()> write = [&] { answer = make(service, *call); };
  co_await service.workers.run(write);
  if (!answer) co_return exchange.respond(openai_error(to_api_error(answer.error())));
  exchange.respond({200, "application/json", std::move(*answer), {}});
}

}  // namespace

Task<> tokenize(Service& service, Exchange& exchange) {
  return answer_with(service, exchange, Messages::kWhereGiven, tokenize_body);
}
Task<> detokenize(Service& service, Exchange& exchange) {
  return answer_with(service, exchange, Messages::kNone, detokenize_body);
}
Task<> render(Service& service, Exchange& exchange) {
  return answer_with(service, exchange, Messages::kWanted, render_body);
}

}  // namespace inkstone::server
