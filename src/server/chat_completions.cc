// SPDX-License-Identifier: Apache-2.0
// Station 2 of docs/journey.md: POST /v1/chat/completions. HttpRequest -> ChatRequest -> Submission, and
// back.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "server/answer/chat_turns.h"
#include "server/answer/generation.h"
#include "server/chat_call.h"
#include "server/chat_media.h"
#include "server/endpoints.h"
#include "server/sse_writer.h"
#include "server/wire/json_writer.h"

namespace inkstone::server {
namespace {

void write_usage(JsonWriter& json, const TurnUsage& usage) {
  json.open_object().key("prompt_tokens").integer(usage.prompt_tokens);
  json.key("completion_tokens").integer(usage.completion_tokens);
  json.key("total_tokens").integer(usage.prompt_tokens + usage.completion_tokens);
  json.key("prompt_tokens_details")
      .open_object()
      .key("cached_tokens")
      .integer(usage.cached_tokens)
      .close_object();
  json.key("completion_tokens_details").open_object();
  json.key("reasoning_tokens").integer(usage.reasoning_tokens).close_object().close_object();
}

void write_head(JsonWriter& json, std::string_view id, std::string_view object, const ServedModel& model,
                std::int64_t created) {
  json.open_object().key("id").string(id).key("object").string(object).key("created").integer(created);
  json.key("model").string(model.names.front());
}

void write_call(JsonWriter& json, const chat::ReplyCall& call) {
  json.open_object().key("id").string(call.id).key("type").string("function").key("function").open_object();
  json.key("name").string(call.name).key("arguments").string(call.arguments).close_object().close_object();
}

void write_message(JsonWriter& json, const chat::ReplyMessage& message) {
  json.open_object().key("role").string("assistant").key("content");
  if (message.content.empty()) {
    json.null();
  } else {
    json.string(message.content);
  }
  if (!message.reasoning.empty()) json.key("reasoning_content").string(message.reasoning);
  if (!message.tool_calls.empty()) {
    json.key("tool_calls").open_array();
    for (const chat::ReplyCall& call : message.tool_calls) write_call(json, call);
    json.close_array();
  }
  json.close_object();
}

// What stopped the answer, where it was the request's own wish.
void write_stop_reason(JsonWriter& json, const chat::ReplyMessage& message, const ChatCall& call,
                       std::optional<std::int32_t> stop_id) {
  if (!message.matched_stop.empty()) {
    json.key("stop_reason").string(message.matched_stop);
    return;
  }
  for (const std::int32_t id : call.fields.sampling.stop_token_ids)
    if (stop_id == id) return void(json.key("stop_reason").integer(id));
}

class WholeReply final : public ChatTurns {
 public:
  WholeReply(const ServedModel& model, const ChatCall& call, Exchange& exchange)
      : ChatTurns(model, call), exchange_(exchange) {}

  void finish() override {
    if (fault()) return exchange_.respond(openai_error(*fault()));
    HttpResponse response;
    JsonWriter json(response.body);
    write_head(json, random_name("chatcmpl-"), "chat.completion", model(), unix_seconds());
    json.key("choices").open_array();
    for (std::size_t choice = 0; choice < num_turns(); ++choice) write_choice(json, choice);
    json.close_array().key("usage");
    write_usage(json, usage());
    json.close_object();
    exchange_.respond(std::move(response));
  }

 private:
  void write_choice(JsonWriter& json, std::size_t choice) {
    json.open_object().key("index").integer(static_cast<std::int64_t>(choice)).key("message");
    write_message(json, message(choice));
    json.key("logprobs");
    if (call().fields.sampling.logprobs) {
      json.open_object().key("content").open_array();
      const std::string entries = take_logprobs(choice);
      if (!entries.empty()) json.raw(entries);
      json.close_array().close_object();
    } else {
      json.null();
    }
    json.key("finish_reason").string(chat::spell(message(choice).finish_reason));
    write_stop_reason(json, message(choice), call(), turn(choice).stop_id);
    json.close_object();
  }

  Exchange& exchange_;
};

class StreamedReply final : public ChatTurns {
 public:
  StreamedReply(const ServedModel& model, const ChatCall& call, Exchange& exchange)
      : ChatTurns(model, call), sse_(exchange) {
    JsonWriter json(head_);
    write_head(json, random_name("chatcmpl-"), "chat.completion.chunk", model, unix_seconds());
  }

  void begin() override {
    sse_.begin();
    for (std::size_t choice = 0; choice < num_turns(); ++choice)
      send(choice, R"({"role":"assistant","content":""})", "");
  }

  void finish() override {
    if (fault()) sse_.data(openai_error_json(*fault()));
    if (!fault() && call().fields.include_usage) {
      chunk_ = head_ + R"(,"choices":[],"usage":)";
      JsonWriter json(chunk_);
      write_usage(json, usage());
      chunk_ += '}';
      sse_.data(chunk_);
    }
    sse_.done();
  }

 private:
  void delta(std::size_t choice, const chat::ReplyDelta& delta) override {
    using Kind = chat::ReplyDelta::Kind;
    text_.clear();
    JsonWriter json(text_);
    json.open_object();
    switch (delta.kind) {
      case Kind::kReasoning:
        json.key("reasoning_content").string(delta.text);
        break;
      case Kind::kContent:
        json.key("content").string(delta.text);
        break;
      case Kind::kCallStart:
      case Kind::kCallArguments:
        write_call_delta(json, delta);
        break;
    }
    json.close_object();
    send(choice, text_, "");
  }

  static void write_call_delta(JsonWriter& json, const chat::ReplyDelta& delta) {
    json.key("tool_calls")
        .open_array()
        .open_object()
        .key("index")
        .integer(static_cast<std::int64_t>(delta.call_idx));
    if (delta.kind == chat::ReplyDelta::Kind::kCallStart) {
      json.key("id").string(delta.call_id).key("type").string("function");
      json.key("function").open_object().key("name").string(delta.name).key("arguments").string("");
    } else {
      json.key("function").open_object().key("arguments").string(delta.text);
    }
    json.close_object().close_object().close_array();
  }

  void turn_ended(std::size_t choice) override {
    if (!fault()) send(choice, "{}", chat::spell(message(choice).finish_reason));
  }

  void send(std::size_t choice, std::string_view delta, std::string_view finish_reason) {
    chunk_ = head_;
    JsonWriter json(chunk_);
    json.key("choices").open_array().open_object().key("index").integer(static_cast<std::int64_t>(choice));
    json.key("delta").raw(delta).key("logprobs");
    const std::string logprobs = take_logprobs(choice);
    if (logprobs.empty()) {
      json.null();
    } else {
      json.open_object().key("content").open_array().raw(logprobs).close_array().close_object();
    }
    json.key("finish_reason");
    if (finish_reason.empty()) {
      json.null();
    } else {
      json.string(finish_reason);
      write_stop_reason(json, message(choice), call(), turn(choice).stop_id);
    }
    json.close_object().close_array();
    if (call().fields.continuous_usage) {
      json.key("usage");
      write_usage(json, usage());
    } else if (call().fields.include_usage) {
      json.key("usage").null();
    }
    json.close_object();
    sse_.data(chunk_);
  }

  SseWriter sse_;
  std::string head_;  // an object that is still open
  std::string chunk_;
  std::string text_;
};

std::unique_ptr<ChatTurns> make_reply(const ServedModel& model, const ChatCall& call, Exchange& exchange) {
  if (call.fields.stream) return std::make_unique<StreamedReply>(model, call, exchange);
  return std::make_unique<WholeReply>(model, call, exchange);
}

}  // namespace

Task<> chat_completions(Service& service, Exchange& exchange) {
  Result<ChatCall> call;
  const std::function<void()> prepare = [&] { call = prepare_chat(service, exchange.request().body); };
  co_await service.workers.run(prepare);
  if (call) {
    const Status done = co_await complete_call(service, *call);
    if (!done) call = tl::unexpected(done.error());
  }
  if (!call) co_return exchange.respond(openai_error(to_api_error(call.error())));
  if (!call->warnings.empty()) exchange.add_header("x-inkstone-warning", warning_header(call->warnings));

  Generation generation(service, exchange);
  const std::optional<ApiError> refused = generation.start(submissions_of(service.model, *call));
  if (refused) co_return exchange.respond(openai_error(*refused));

  const std::unique_ptr<ChatTurns> reply = make_reply(service.model, *call, exchange);
  reply->begin();
  co_await generation.feed(*reply);
  reply->finish();
}

}  // namespace inkstone::server
