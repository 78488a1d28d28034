// SPDX-License-Identifier: Apache-2.0
#include "eval/answer.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace inkstone::eval {
namespace {

using Kind = chat::JsonValue::Kind;

Result<Call> read_call(const chat::Field& field) {
  INK_TRY(field.require_object());
  Call call;
  call.name = INK_TRY(field["name"].string());
  const chat::Field arguments = field["arguments"];
  if (!arguments.present()) return arguments.refuse("is missing");
  // A string is what the model generated instead of an object.
  call.arguments = arguments.is_string() ? arguments.value().text : chat::canonical_json(arguments.value());
  return call;
}

Result<std::vector<std::int32_t>> read_ids(const chat::Field& field) {
  std::vector<std::int32_t> ids;
  for (const chat::Field& id : INK_TRY(field.array())) {
    if (!id.is(Kind::kInteger)) return id.refuse("must be a token id");
    ids.push_back(static_cast<std::int32_t>(id.value().number));
  }
  return ids;
}

// As decoded JSON, so that a reader need not decode it again.
nlohmann::ordered_json decoded(const std::string& arguments) {
  nlohmann::ordered_json value = nlohmann::ordered_json::parse(arguments, nullptr, false);
  return value.is_object() ? value : nlohmann::ordered_json(arguments);
}

}  // namespace

Call make_call(std::string name, std::string_view arguments) {
  const Result<chat::JsonValue> value = chat::parse_json(arguments, "arguments");
  return {std::move(name), value ? chat::canonical_json(*value) : std::string(arguments)};
}

Answer answer_of(std::vector<std::int32_t> ids, const chat::ReplyMessage& message) {
  Answer answer{0, std::move(ids), message.reasoning, message.content, {}};
  for (const chat::ReplyCall& call : message.tool_calls)
    answer.calls.push_back(make_call(call.name, call.arguments));
  return answer;
}

std::vector<std::string> differing_fields(const Answer& a, const Answer& b) {
  std::vector<std::string> fields;
  if (!a.ids.empty() && !b.ids.empty() && a.ids != b.ids) fields.emplace_back("ids");
  if (a.reasoning != b.reasoning) fields.emplace_back("reasoning");
  if (a.content != b.content) fields.emplace_back("content");
  if (a.calls != b.calls) fields.emplace_back("calls");
  return fields;
}

Result<Answer> read_answer(const chat::Field& field) {
  INK_TRY(field.require_object());
  Answer answer;
  if (field["prompt_tokens"].is(Kind::kInteger))
    answer.prompt_tokens = static_cast<std::int64_t>(field["prompt_tokens"].value().number);
  answer.ids = INK_TRY(read_ids(field["ids"]));
  answer.reasoning = INK_TRY(field["reasoning"].string());
  answer.content = INK_TRY(field["content"].string());
  for (const chat::Field& call : INK_TRY(field["calls"].array()))
    answer.calls.push_back(INK_TRY(read_call(call)));
  return answer;
}

nlohmann::ordered_json to_json(const Answer& answer) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::array();
  for (const Call& call : answer.calls)
    calls.push_back({{"name", call.name}, {"arguments", decoded(call.arguments)}});
  return {{"prompt_tokens", answer.prompt_tokens},
          {"ids", answer.ids},
          {"reasoning", answer.reasoning},
          {"content", answer.content},
          {"calls", std::move(calls)}};
}

}  // namespace inkstone::eval
