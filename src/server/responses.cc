// SPDX-License-Identifier: Apache-2.0
// POST /v1/responses: OpenAI's Responses dialect without stored state. Items to a chat body, blocks to items.
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

JsonValue thinking_part(const std::string& text) {
  return json_object({{"type", json_string("thinking")}, {"thinking", json_string(text)}});
}

Status add_reasoning(const Field& item, ChatBody& body) {
  for (const std::string_view list : {"content", "summary"}) {
    bool any = false;
    for (const Field& part : INK_TRY(item[list].array())) {
      body.add_assistant_part(thinking_part(INK_TRY(part["text"].string())));
      any = true;
    }
    if (any) return {};
  }
  return {};
}

Status add_message(const Field& item, ChatBody& body) {
  const std::string role = INK_TRY(item["role"].string());
  const Field content = item["content"];
  if (!content.present()) return content.refuse("is missing");
  if (role != "assistant") {
    body.add_message(role, content.value(), {content.path(), {}});
  } else if (content.is_string()) {
    body.add_assistant_part(content.value());
  } else {
    for (const Field& part : INK_TRY(content.array())) body.add_assistant_part(part.value(), part.path());
  }
  return {};
}

Status add_item(const Field& item, ChatBody& body) {
  INK_TRY(item.require_object());
  const std::string type = INK_TRY(item["type"].string("message"));
  if (type == "message") return add_message(item, body);
  if (type == "reasoning") return add_reasoning(item, body);
  if (type == "function_call") {
    const std::string id = INK_TRY(item["call_id"].string());
    const std::string name = INK_TRY(item["name"].string());
    body.add_call(id, name, INK_TRY(item["arguments"].string("{}")));
    return {};
  }
  if (type != "function_call_output") return item["type"].refuse("items of this type are not supported");
  const Field output = item["output"];
  if (!output.present()) return output.refuse("is missing");
  body.add_tool_result(INK_TRY(item["call_id"].string()), output.value(), output.path());
  return {};
}

Status add_input(const Field& request, ChatBody& body) {
  const std::string instructions = INK_TRY(request["instructions"].string());
  if (!instructions.empty()) body.add_message("system", json_string(instructions));
  const Field input = request["input"];
  if (input.is_string()) {
    body.add_message("user", input.value());
    return {};
  }
  if (!input.is_array()) return input.refuse("must be a string or an array of items");
  for (const Field& item : INK_TRY(input.array())) INK_TRY(add_item(item, body));
  return {};
}

Status refuse_stored_state(const Field& request) {
  for (const std::string_view name : {"previous_response_id", "conversation"})
    if (request[name].present())
      return request[name].refuse("this server keeps no responses; send the whole input");
  if (INK_TRY(request["background"].boolean(false))) return request["background"].refuse("is not supported");
  return {};
}

// {"type": "function", "name": N}; words stay words.
JsonValue tool_choice_of(const Field& choice) {
  if (!choice.is_object()) return choice.value();
  const JsonValue* name = choice.value().find("name");
  JsonValue translated = json_object({{"type", json_string("function")}});
  set_member(translated, "function", json_object({{"name", name == nullptr ? JsonValue{} : *name}}));
  return translated;
}

// text.format holds flat what response_format nests.
JsonValue response_format_of(const Field& format) {
  const JsonValue* type = format.value().find("type");
  if (type == nullptr || type->text != "json_schema") return format.value();
  JsonValue nested = format.value();
  std::erase_if(nested.members, [](const chat::JsonMember& member) { return member.key == "type"; });
  return json_object({{"type", *type}, {"json_schema", std::move(nested)}});
}

Result<ChatBodyOf> translate(const Field& request) {
  INK_TRY(refuse_stored_state(request));
  ChatBody body(request.value(),
                {"input", "instructions", "tools", "tool_choice", "text", "max_output_tokens", "include",
                 "truncation", "previous_response_id", "conversation", "background", "n", "stream_options",
                 "max_tool_calls", "prompt_cache_key", "safety_identifier"});
  INK_TRY(add_input(request, body));
  if (request["tools"].present()) body.set("tools", INK_TRY(translate_tools(request["tools"], "parameters")));
  if (request["tool_choice"].present()) body.set("tool_choice", tool_choice_of(request["tool_choice"]));
  if (request["text"]["format"].is_object())
    body.set("response_format", response_format_of(request["text"]["format"]));
  const Field limit = request["max_output_tokens"];
  INK_TRY(read_integer_in(limit, 1, 1, kMaxTokens));
  if (limit.present()) body.set("max_completion_tokens", limit.value());
  return ChatBodyOf{body.take(), body.origins()};
}

struct ResponseCall {
  ChatCall chat;
  std::string echo;  // members of the response that repeat the request
};

void write_or(JsonWriter& json, std::string_view key, const Field& field, std::string_view fallback) {
  json.key(key).raw(field.present() ? chat::ordered_json(field.value()) : std::string(fallback));
}

std::string echo_of(const Field& request, const ChatCall& call) {
  std::string out;
  JsonWriter json(out);
  write_or(json, "instructions", request["instructions"], "null");
  write_or(json, "max_output_tokens", request["max_output_tokens"], "null");
  json.key("parallel_tool_calls").boolean(call.request.parallel_tool_calls);
  json.key("previous_response_id").null();
  json.key("reasoning").open_object();
  write_or(json, "effort", request["reasoning"]["effort"], "null");
  json.key("summary").null().close_object();
  json.key("store").boolean(false).key("temperature").number(call.fields.sampling.temperature);
  write_or(json, "text", request["text"], R"({"format":{"type":"text"}})");
  write_or(json, "tool_choice", request["tool_choice"], "\"auto\"");
  write_or(json, "tools", request["tools"], "[]");
  json.key("top_p").number(call.fields.sampling.top_p).key("truncation").string("disabled");
  write_or(json, "metadata", request["metadata"], "{}");
  return out;
}

// An error about the translated body, told in terms of the client's.
Error in_their_words(Error error, const Origins& origins) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"response_format.json_schema", "text.format"}, {"response_format", "text.format"}};
  for (const auto& [ours, theirs] : kNames) {
    if (!error.message.starts_with(ours)) continue;
    error.message.replace(0, ours.size(), theirs);
    return error;
  }
  return in_terms_of(std::move(error), "input", origins);
}

Result<ResponseCall> prepare(Service& service, std::string_view text) {
  const JsonValue parsed = INK_TRY(parse_body(text));
  const Field request(&parsed, "");
  const ChatBodyOf translated = INK_TRY(translate(request));
  Result<ChatCall> call = prepare_chat(service, Field(&translated.body, ""));
  if (!call) return tl::unexpected(in_their_words(call.error(), translated.origins));
  name_media(call->request, translated.origins);
  std::string echo = echo_of(request, *call);
  return ResponseCall{std::move(*call), std::move(echo)};
}

// --- response ---

using Kind = AnswerBlock::Kind;

std::string_view part_type(Kind kind) { return kind == Kind::kThinking ? "reasoning_text" : "output_text"; }

void write_part(JsonWriter& json, const AnswerBlock& block, std::string_view text) {
  json.open_object().key("type").string(part_type(block.kind)).key("text").string(text);
  if (block.kind == Kind::kText) json.key("annotations").raw("[]").key("logprobs").raw("[]");
  json.close_object();
}

// An item as it stands: before its end without its text.
void write_item(JsonWriter& json, const AnswerBlock& block, bool complete) {
  json.open_object().key("id").string(block.id);
  json.key("status").string(complete ? "completed" : "in_progress");
  switch (block.kind) {
    case Kind::kCall:
      json.key("type")
          .string("function_call")
          .key("call_id")
          .string(block.call_id)
          .key("name")
          .string(block.name);
      json.key("arguments").string(complete ? block.text : "");
      break;
    case Kind::kThinking:
      json.key("type").string("reasoning").key("summary").raw("[]").key("content").open_array();
      if (complete) write_part(json, block, block.text);
      json.close_array();
      break;
    case Kind::kText:
      json.key("type").string("message").key("role").string("assistant").key("content").open_array();
      if (complete) write_part(json, block, block.text);
      json.close_array();
      break;
  }
  json.close_object();
}

// Common to both forms.
class ResponseReply : public BlockTurns {
 public:
  ResponseReply(const ServedModel& model, const ResponseCall& call)
      : BlockTurns(model, call.chat), echo_(call.echo), id_(random_name("resp_")), created_(unix_seconds()) {}

 protected:
  [[nodiscard]] std::string response_json(std::string_view status) const {
    std::string out;
    JsonWriter json(out);
    json.open_object()
        .key("id")
        .string(id_)
        .key("object")
        .string("response")
        .key("created_at")
        .integer(created_);
    json.key("status").string(status).key("error");
    if (fault()) {
      json.open_object()
          .key("code")
          .string("server_error")
          .key("message")
          .string(fault()->message)
          .close_object();
    } else {
      json.null();
    }
    json.key("incomplete_details");
    if (status == "incomplete") {
      json.raw(R"({"reason":"max_output_tokens"})");
    } else {
      json.null();
    }
    json.key("model").string(model().names.front()).raw(echo_).key("output").open_array();
    if (status != "in_progress")
      for (const AnswerBlock& block : blocks()) write_item(json, block, true);
    json.close_array().key("usage");
    write_usage(json, status);
    json.close_object();
    return out;
  }

  [[nodiscard]] std::string_view final_status() const {
    if (fault()) return "failed";
    return message(0).finish_reason == chat::FinishReason::kLength ? "incomplete" : "completed";
  }

 private:
  void write_usage(JsonWriter& json, std::string_view status) const {
    if (status == "in_progress") return void(json.null());
    const TurnUsage used = usage();
    json.open_object().key("input_tokens").integer(used.prompt_tokens);
    json.key("input_tokens_details")
        .open_object()
        .key("cached_tokens")
        .integer(used.cached_tokens)
        .close_object();
    json.key("output_tokens").integer(used.completion_tokens);
    json.key("output_tokens_details").open_object().key("reasoning_tokens").integer(used.reasoning_tokens);
    json.close_object()
        .key("total_tokens")
        .integer(used.prompt_tokens + used.completion_tokens)
        .close_object();
  }

  const std::string& echo_;
  std::string id_;
  std::int64_t created_;
};

class WholeResponse final : public ResponseReply {
 public:
  WholeResponse(const ServedModel& model, const ResponseCall& call, Exchange& exchange)
      : ResponseReply(model, call), exchange_(exchange) {}
  void finish() override {
    if (fault()) return exchange_.respond(openai_error(*fault()));
    exchange_.respond({200, "application/json", response_json(final_status()), {}});
  }

 private:
  Exchange& exchange_;
};

class StreamedResponse final : public ResponseReply {
 public:
  StreamedResponse(const ServedModel& model, const ResponseCall& call, Exchange& exchange)
      : ResponseReply(model, call), sse_(exchange) {}

  void begin() override {
    sse_.begin();
    send("response.created",
         [&](JsonWriter& json) { json.key("response").raw(response_json("in_progress")); });
    send("response.in_progress",
         [&](JsonWriter& json) { json.key("response").raw(response_json("in_progress")); });
  }

  void finish() override {
    const std::string_view status = final_status();
    send(fmt::format("response.{}", status),
         [&](JsonWriter& json) { json.key("response").raw(response_json(status)); });
  }

 private:
  template <class Write>
  void send(std::string_view type, const Write& write) {
    text_.clear();
    JsonWriter json(text_);
    json.open_object().key("type").string(type).key("sequence_number").integer(sequence_++);
    write(json);
    json.close_object();
    sse_.event(type, text_);
  }

  static void write_place(JsonWriter& json, const AnswerBlock& block) {
    json.key("item_id").string(block.id).key("output_index").integer(static_cast<std::int64_t>(block.idx));
    if (block.kind != Kind::kCall) json.key("content_index").integer(0);
  }

  static std::string_view growth_of(Kind kind) {
    if (kind == Kind::kCall) return "response.function_call_arguments";
    return kind == Kind::kThinking ? "response.reasoning_text" : "response.output_text";
  }

  void send_item(std::string_view type, const AnswerBlock& block, bool complete) {
    send(type, [&](JsonWriter& json) {
      json.key("output_index").integer(static_cast<std::int64_t>(block.idx)).key("item");
      write_item(json, block, complete);
    });
  }

  void send_part(std::string_view type, const AnswerBlock& block, std::string_view text) {
    if (block.kind == Kind::kCall) return;
    send(type, [&](JsonWriter& json) {
      write_place(json, block);
      json.key("part");
      write_part(json, block, text);
    });
  }

  void block_opened(const AnswerBlock& block) override {
    send_item("response.output_item.added", block, false);
    send_part("response.content_part.added", block, "");
  }

  void block_grew(const AnswerBlock& block, std::string_view piece) override {
    send(fmt::format("{}.delta", growth_of(block.kind)), [&](JsonWriter& json) {
      write_place(json, block);
      json.key("delta").string(piece);
      if (block.kind == Kind::kText) json.key("logprobs").raw("[]");
    });
  }

  void block_closed(const AnswerBlock& block) override {
    send(fmt::format("{}.done", growth_of(block.kind)), [&](JsonWriter& json) {
      write_place(json, block);
      json.key(block.kind == Kind::kCall ? "arguments" : "text").string(block.text);
      if (block.kind == Kind::kCall) json.key("name").string(block.name);
      if (block.kind == Kind::kText) json.key("logprobs").raw("[]");
    });
    send_part("response.content_part.done", block, block.text);
    send_item("response.output_item.done", block, true);
  }

  SseWriter sse_;
  std::string text_;
  std::int64_t sequence_ = 0;
};

std::unique_ptr<ChatTurns> make_reply(const ServedModel& model, const ResponseCall& call,
                                      Exchange& exchange) {
  if (call.chat.fields.stream) return std::make_unique<StreamedResponse>(model, call, exchange);
  return std::make_unique<WholeResponse>(model, call, exchange);
}

}  // namespace

Task<> responses(Service& service, Exchange& exchange) {
  Result<ResponseCall> call;
  const std::function<void()> work = [&] { call = prepare(service, exchange.request().body); };
  co_await service.workers.run(work);
  if (call) {
    const Status done = co_await complete_call(service, call->chat);
    if (!done) call = tl::unexpected(done.error());
  }
  if (!call) co_return exchange.respond(openai_error(to_api_error(call.error())));
  if (!call->chat.warnings.empty())
    exchange.add_header("x-inkstone-warning", warning_header(call->chat.warnings));

  Generation generation(service, exchange);
  const std::optional<ApiError> refused = generation.start(submissions_of(service.model, call->chat));
  if (refused) co_return exchange.respond(openai_error(*refused));

  const std::unique_ptr<ChatTurns> reply = make_reply(service.model, *call, exchange);
  reply->begin();
  co_await generation.feed(*reply);
  reply->finish();
}

}  // namespace inkstone::server
