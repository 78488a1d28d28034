// SPDX-License-Identifier: Apache-2.0
#include "server/chat_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "chat/reply_decoder.h"
#include "chat/request_parser.h"
#include "server/chat_media.h"
#include "server/wire/api_error.h"
#include "text/utf8.h"

namespace inkstone::server {
namespace {

using chat::Field;

constexpr std::size_t kMaxWarningBytes = 1024;

constexpr auto kChatNames = std::to_array<std::string_view>({"messages",
                                                             "tools",
                                                             "tool_choice",
                                                             "parallel_tool_calls",
                                                             "reasoning_effort",
                                                             "chat_template_kwargs",
                                                             "include_reasoning",
                                                             "separate_reasoning",
                                                             "stream_reasoning",
                                                             "max_completion_tokens",
                                                             "max_tokens",
                                                             "logprobs",
                                                             "top_logprobs",
                                                             "response_format",
                                                             "add_generation_prompt",
                                                             "continue_final_message",
                                                             "mm_processor_kwargs",
                                                             "reasoning",
                                                             "output_config",
                                                             "enable_thinking",
                                                             "thinking"});

Status read_max_tokens(const Field& body, sampling::SamplingParams& params) {
  for (const std::string_view name : {"max_completion_tokens", "max_tokens"}) {
    const Field field = body[name];
    if (!field.present()) continue;
    const std::int64_t value = INK_TRY(read_integer_in(field, 0, 1, kMaxTokens));
    if (!params.max_tokens) params.max_tokens = value;
  }
  return {};
}

Status read_logprobs(const Field& body, sampling::SamplingParams& params) {
  const bool wanted = INK_TRY(body["logprobs"].boolean(false));
  const std::int64_t top = INK_TRY(read_integer_in(body["top_logprobs"], 0, 0, 20));
  if (top > 0 && !wanted) return body["top_logprobs"].refuse("needs logprobs to be true");
  if (wanted) params.logprobs = top;
  return {};
}

Status check_count(const Service& service, const Field& messages) {
  if (!messages.is_array() || messages.value().items.size() <= service.limits.max_messages) return {};
  return messages.refuse(fmt::format("holds {} messages, at most {} are allowed",
                                     messages.value().items.size(), service.limits.max_messages));
}

// Behind the last message border later prompts of the conversation differ.
std::vector<std::int64_t> boundaries_of(const ServedModel& model, std::span<const std::int32_t> prompt) {
  for (std::size_t end = prompt.size(); end > 0; --end)
    if (prompt[end - 1] == model.tokens.end_message) return {static_cast<std::int64_t>(end)};
  return {};
}

// Stop strings are seen in visible text only, so the engine's thread has to parse the reply as well.
std::function<bool(std::int32_t)> stop_watch(const ServedModel& model, const ChatCall& call) {
  if (call.fields.stop.empty()) return {};
  const auto decoder = std::make_shared<chat::ReplyDecoder>(*model.tokenizer, model.tokens,
                                                            reply_options_of(call), call.prompt);
  return [decoder, ignored = std::vector<chat::ReplyDelta>()](std::int32_t id) mutable {
    ignored.clear();
    decoder->push(id, ignored);
    return decoder->ended() == chat::TurnEnd::kStop;
  };
}

}  // namespace

Result<chat::JsonValue> parse_body(std::string_view body) {
  Result<chat::JsonValue> parsed = chat::parse_json(body, "request");
  if (!parsed) {
    const std::string field = unspeakable_number(body);
    if (!field.empty()) return invalid(fmt::format("{}: must be a finite number", field));
    return parsed;
  }
  INK_TRY(Field(&*parsed, "").require_object());
  return parsed;
}

Status warn_of_unknown(const Service& service, const Field& body, std::span<const std::string_view> names,
                       std::vector<std::string>& warnings) {
  const std::array<std::span<const std::string_view>, 2> known = {answer_field_names(), names};
  for (const std::string& name : unknown_members(body, known)) {
    const std::string shown = text::replace_invalid_utf8(name.substr(0, 64));
    if (service.limits.strict_fields)
      return invalid(fmt::format("{}: is not a field of this request", shown));
    warnings.push_back(fmt::format("unknown field '{}' ignored", shown));
  }
  return {};
}

Status check_model(const ServedModel& model, const Field& body) {
  const Field field = body["model"];
  const std::string name = INK_TRY(field.string());
  if (name.empty() || std::ranges::find(model.names, name) != model.names.end()) return {};
  return fail(ErrorKind::kNotFound, fmt::format("model: '{}' is not served here; '{}' is",
                                                name.substr(0, 200), model.names.front()));
}

Result<ChatCall> prepare_chat(Service& service, const Field& body) {
  ChatCall call;
  INK_TRY(check_model(service.model, body));
  INK_TRY(check_count(service, body["messages"]));
  call.request = INK_TRY(chat::parse_chat_request(body));
  call.fields = INK_TRY(read_answer_fields(body));
  INK_TRY(read_max_tokens(body, call.fields.sampling));
  INK_TRY(read_logprobs(body, call.fields.sampling));
  call.form = INK_TRY(service.grammars.find(call.request, body));
  call.media_rules = INK_TRY(read_media_rules(body));
  INK_TRY(check_media(service, call.request));
  if (media_of(call.request).empty()) call.prompt = INK_TRY(service.model.encoder->encode(call.request)).ids;
  call.warnings = call.request.warnings;
  INK_TRY(warn_of_unknown(service, body, kChatNames, call.warnings));
  return call;
}

Result<ChatCall> prepare_chat(Service& service, std::string_view body) {
  const chat::JsonValue parsed = INK_TRY(parse_body(body));
  return prepare_chat(service, Field(&parsed, ""));
}

std::vector<engine::Submission> submissions_of(const ServedModel& model, const ChatCall& call) {
  std::vector<engine::Submission> submissions(static_cast<std::size_t>(call.fields.choices));
  const std::uint64_t seed = call.fields.sampling.seed.value_or(sampling::random_seed());
  for (std::size_t choice = 0; choice < submissions.size(); ++choice) {
    engine::Submission& submission = submissions[choice];
    submission.prompt = call.prompt;
    submission.media = call.media;
    submission.sampling = call.fields.sampling;
    submission.sampling.seed = seed;
    submission.sampling.choice = static_cast<std::uint32_t>(choice);
    submission.end_ids = model.end_ids;
    submission.salt = call.fields.salt;
    submission.priority = call.fields.priority;
    submission.boundaries = boundaries_of(model, call.prompt);
    submission.ends_answer = stop_watch(model, call);
    if (call.form) submission.constraint = std::make_shared<sampling::GrammarConstraint>(call.form);
  }
  return submissions;
}

chat::ReplyOptions reply_options_of(const ChatCall& call) {
  chat::ReplyOptions options = chat::reply_options(call.request);
  options.streaming = call.fields.stream;
  options.stop = call.fields.stop;
  options.keep_stop = call.fields.keep_stop;
  options.stop_ids = call.fields.sampling.stop_token_ids;
  options.ignore_end_of_turn = call.fields.sampling.ignore_eos;
  return options;
}

std::string warning_header(std::span<const std::string> warnings) {
  std::string text;
  for (const std::string& warning : warnings) {
    if (!text.empty()) text += "; ";
    for (const char byte : warning)
      text += byte >= ' ' && byte < '\x7f' && byte != '"' && byte != '\\' ? byte : '?';
    if (text.size() > kMaxWarningBytes) break;
  }
  return text.substr(0, kMaxWarningBytes);
}

}  // namespace inkstone::server
