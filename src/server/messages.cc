// SPDX-License-Identifier: Apache-2.0
// POST /v1/messages and /v1/messages/count_tokens: Anthropic's dialect. Blocks to a chat body, blocks of the
// answer back.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "server/answer/block_turns.h"
#include "server/chat_media.h"
#include "server/endpoints.h"
#include "server/sse_writer.h"
#include "server/wire/chat_body.h"
#include "server/wire/json_writer.h"

namespace inkstone::server {
namespace {

using chat::Field;
using chat::JsonValue;

// --- request ---

Status add_user(const Field& message, ChatBody& body) {
  const Field content = message["content"];
  if (content.is_string()) return body.add_message("user", content.value()), Status{};
  Origins::Message origin;
  if (!content.is_array()) return content.refuse("must be a string or an array of blocks");
  JsonValue parts;
  parts.kind = JsonValue::Kind::kArray;
  for (const Field& block : INK_TRY(content.array())) {
    INK_TRY(block.require_object());
    if (INK_TRY(block["type"].string()) != "tool_result") {
      parts.items.push_back(block.value());
      origin.parts.push_back(block.path());
      continue;
    }
    const Field result = block["content"];
    body.add_tool_result(INK_TRY(block["tool_use_id"].string()),
                         result.present() ? result.value() : json_string(""), result.path());
  }
  if (!parts.items.empty()) body.add_message("user", std::move(parts), std::move(origin));
  return {};
}

Status add_assistant(const Field& message, ChatBody& body) {
  const Field content = message["content"];
  if (content.is_string()) return body.add_assistant_part(content.value()), Status{};
  if (!content.is_array()) return content.refuse("must be a string or an array of blocks");
  for (const Field& block : INK_TRY(content.array())) {
    INK_TRY(block.require_object());
    const std::string type = INK_TRY(block["type"].string());
    if (type == "redacted_thinking") continue;
    if (type != "tool_use") {
      body.add_assistant_part(block.value(), block.path());
      continue;
    }
    const std::string id = INK_TRY(block["id"].string());
    const std::string name = INK_TRY(block["name"].string());
    INK_TRY(block["input"].require_object());
    body.add_call(id, name, chat::ordered_json(block["input"].value()));
  }
  return {};
}

Status add_messages(const Field& request, ChatBody& body) {
  const Field system = request["system"];
  if (system.present()) body.add_message("system", system.value(), {system.path(), {}});
  const Field messages = request["messages"];
  if (!messages.is_array()) return messages.refuse("must be an array");
  for (const Field& message : INK_TRY(messages.array())) {
    INK_TRY(message.require_object());
    const std::string role = INK_TRY(message["role"].string());
    if (role != "user" && role != "assistant") return message["role"].refuse("must be 'user' or 'assistant'");
    INK_TRY(role == "user" ? add_user(message, body) : add_assistant(message, body));
  }
  return {};
}

Status add_tool_choice(const Field& choice, ChatBody& body) {
  if (!choice.present()) return {};
  INK_TRY(choice.require_object());
  const std::string type = INK_TRY(choice["type"].string());
  if (INK_TRY(choice["disable_parallel_tool_use"].boolean(false))) {
    JsonValue no;
    no.kind = JsonValue::Kind::kBool;
    body.set("parallel_tool_calls", std::move(no));
  }
  if (type == "auto" || type == "none") return body.set("tool_choice", json_string(type)), Status{};
  if (type == "any") return body.set("tool_choice", json_string("required")), Status{};
  if (type != "tool") return choice["type"].refuse("must be 'auto', 'any', 'tool' or 'none'");
  JsonValue function = json_object({{"name", json_string(INK_TRY(choice["name"].string()))}});
  body.set("tool_choice",
           json_object({{"type", json_string("function")}, {"function", std::move(function)}}));
  return {};
}

// {"thinking": {"type": "disabled"}} is the one switch of theirs that has a meaning here.
void add_effort(const Field& request, ChatBody& body) {
  const Field type = request["thinking"]["type"];
  const bool disabled = type.is_string() && type.value().text == "disabled";
  if (disabled && !request["output_config"]["effort"].present())
    body.set("reasoning_effort", json_string("none"));
}

// Counting needs no limit.
Result<ChatBodyOf> translate(const Field& request, bool needs_limit) {
  ChatBody body(request.value(),
                {"messages", "system", "tools", "tool_choice", "stop_sequences", "thinking", "n",
                 "stream_options", "mcp_servers", "container", "context_management", "stop"});
  INK_TRY(add_messages(request, body));
  if (request["tools"].present())
    body.set("tools", INK_TRY(translate_tools(request["tools"], "input_schema")));
  INK_TRY(add_tool_choice(request["tool_choice"], body));
  add_effort(request, body);
  if (request["stop_sequences"].present()) body.set("stop", request["stop_sequences"].value());
  if (needs_limit && !request["max_tokens"].present()) return request["max_tokens"].refuse("is missing");
  return ChatBodyOf{body.take(), body.origins()};
}

Result<ChatCall> prepare(Service& service, std::string_view text, bool needs_limit) {
  const JsonValue parsed = INK_TRY(parse_body(text));
  const ChatBodyOf translated = INK_TRY(translate(Field(&parsed, ""), needs_limit));
  Result<ChatCall> call = prepare_chat(service, Field(&translated.body, ""));
  if (!call) return tl::unexpected(in_terms_of(call.error(), "messages", translated.origins));
  name_media(call->request, translated.origins);
  return call;
}

// --- response ---

using Kind = AnswerBlock::Kind;

void write_block(JsonWriter& json, const AnswerBlock& block, bool complete) {
  json.open_object();
  switch (block.kind) {
    case Kind::kThinking:
      json.key("type").string("thinking").key("thinking").string(complete ? block.text : "");
      json.key("signature").string("");
      break;
    case Kind::kText:
      json.key("type").string("text").key("text").string(complete ? block.text : "");
      break;
    case Kind::kCall:
      json.key("type").string("tool_use").key("id").string(block.call_id).key("name").string(block.name);
      json.key("input").raw(complete && !block.text.empty() ? block.text : "{}");
      break;
  }
  json.close_object();
}

class MessageReply : public BlockTurns {
 public:
  using BlockTurns::BlockTurns;

 protected:
  [[nodiscard]] std::string_view stop_reason() const {
    switch (message(0).finish_reason) {
      case chat::FinishReason::kToolCalls:
        return "tool_use";
      case chat::FinishReason::kLength:
        return "max_tokens";
      case chat::FinishReason::kStop:
      case chat::FinishReason::kAborted:
        break;
    }
    return message(0).matched_stop.empty() ? "end_turn" : "stop_sequence";
  }

  void write_stop(JsonWriter& json) const {
    json.key("stop_reason").string(stop_reason()).key("stop_sequence");
    if (message(0).matched_stop.empty()) {
      json.null();
    } else {
      json.string(message(0).matched_stop);
    }
  }

  void write_usage(JsonWriter& json, const TurnUsage& used) const {
    json.key("usage").open_object().key("input_tokens").integer(used.prompt_tokens);
    json.key("output_tokens").integer(used.completion_tokens).close_object();
  }

  void write_head(JsonWriter& json) const {
    json.open_object().key("id").string(id_).key("type").string("message").key("role").string("assistant");
    json.key("model").string(model().names.front());
  }

 private:
  std::string id_ = random_name("msg_");
};

class WholeMessage final : public MessageReply {
 public:
  WholeMessage(const ServedModel& model, const ChatCall& call, Exchange& exchange)
      : MessageReply(model, call), exchange_(exchange) {}

  void finish() override {
    if (fault()) return exchange_.respond(anthropic_error(*fault()));
    HttpResponse response;
    JsonWriter json(response.body);
    write_head(json);
    json.key("content").open_array();
    for (const AnswerBlock& block : blocks()) write_block(json, block, true);
    json.close_array();
    write_stop(json);
    write_usage(json, usage());
    json.close_object();
    exchange_.respond(std::move(response));
  }

 private:
  Exchange& exchange_;
};

class StreamedMessage final : public MessageReply {
 public:
  StreamedMessage(const ServedModel& model, const ChatCall& call, Exchange& exchange)
      : MessageReply(model, call), sse_(exchange) {}

  void begin() override {
    sse_.begin();
    send("message_start", [&](JsonWriter& json) {
      json.key("message");
      write_head(json);
      json.key("content").raw("[]").key("stop_reason").null().key("stop_sequence").null();
      write_usage(json, {.prompt_tokens = static_cast<std::int64_t>(call().prompt.size())});
      json.close_object();
    });
  }

  void finish() override {
    if (fault()) return sse_.event("error", anthropic_error_json(*fault()));
    send("message_delta", [&](JsonWriter& json) {
      json.key("delta").open_object();
      write_stop(json);
      json.close_object();
      write_usage(json, usage());
    });
    send("message_stop", [](JsonWriter&) {});
  }

 private:
  template <class Write>
  void send(std::string_view type, const Write& write) {
    text_.clear();
    JsonWriter json(text_);
    json.open_object().key("type").string(type);
    write(json);
    json.close_object();
    sse_.event(type, text_);
  }

  void block_opened(const AnswerBlock& block) override {
    send("content_block_start", [&](JsonWriter& json) {
      json.key("index").integer(static_cast<std::int64_t>(block.idx)).key("content_block");
      write_block(json, block, false);
    });
  }

  void block_grew(const AnswerBlock& block, std::string_view piece) override {
    send("content_block_delta", [&](JsonWriter& json) {
      json.key("index").integer(static_cast<std::int64_t>(block.idx)).key("delta").open_object();
      switch (block.kind) {
        case Kind::kThinking:
          json.key("type").string("thinking_delta").key("thinking").string(piece);
          break;
        case Kind::kText:
          json.key("type").string("text_delta").key("text").string(piece);
          break;
        case Kind::kCall:
          json.key("type").string("input_json_delta").key("partial_json").string(piece);
          break;
      }
      json.close_object();
    });
  }

  void block_closed(const AnswerBlock& block) override {
    send("content_block_stop",
         [&](JsonWriter& json) { json.key("index").integer(static_cast<std::int64_t>(block.idx)); });
  }

  SseWriter sse_;
  std::string text_;
};

std::unique_ptr<ChatTurns> make_reply(const ServedModel& model, const ChatCall& call, Exchange& exchange) {
  if (call.fields.stream) return std::make_unique<StreamedMessage>(model, call, exchange);
  return std::make_unique<WholeMessage>(model, call, exchange);
}

}  // namespace

Task<> messages(Service& service, Exchange& exchange) {
  Result<ChatCall> call;
  const std::function<void()> work = [&] { call = prepare(service, exchange.request().body, true); };
  co_await service.workers.run(work);
  if (call) {
    const Status done = co_await complete_call(service, *call);
    if (!done) call = tl::unexpected(done.error());
  }
  if (!call) co_return exchange.respond(anthropic_error(to_api_error(call.error())));
  if (!call->warnings.empty()) exchange.add_header("x-inkstone-warning", warning_header(call->warnings));

  Generation generation(service, exchange);
  const std::optional<ApiError> refused = generation.start(submissions_of(service.model, *call));
  if (refused) co_return exchange.respond(anthropic_error(*refused));

  const std::unique_ptr<ChatTurns> reply = make_reply(service.model, *call, exchange);
  reply->begin();
  co_await generation.feed(*reply);
  reply->finish();
}

Task<> count_message_tokens(Service& service, Exchange& exchange) {
  Result<ChatCall> call;
  const std::function<void()> work = [&] { call = prepare(service, exchange.request().body, false); };
  co_await service.workers.run(work);
  if (call) {
    const Status done = co_await complete_call(service, *call);
    if (!done) call = tl::unexpected(done.error());
  }
  if (!call) co_return exchange.respond(anthropic_error(to_api_error(call.error())));
  HttpResponse response;
  JsonWriter json(response.body);
  json.open_object()
      .key("input_tokens")
      .integer(static_cast<std::int64_t>(call->prompt.size()))
      .close_object();
  exchange.respond(std::move(response));
}

}  // namespace inkstone::server
