// SPDX-License-Identifier: Apache-2.0
#include "tests/server/grammar_rig.h"

#include "base/check.h"
#include "chat/request_parser.h"
#include "sampling/grammar_automaton.h"
#include "tests/support/real_tokenizer.h"

namespace inkstone::test_support {

using nlohmann::json;
using server::AnswerGrammars;

AnswerGrammars& grammars() {
  static AnswerGrammars all(mini_tokenizer(), mini_special_tokens());
  return all;
}

Result<AnswerGrammars::Automaton> compile(AnswerGrammars& all, const json& members) {
  json request = {{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  request.update(members);
  const chat::JsonValue body = *chat::parse_json(request.dump(), "request");
  const Result<chat::ChatRequest> parsed = chat::parse_chat_request(chat::Field(&body, ""));
  INK_CHECK(parsed.has_value(), request.dump());
  return all.find(*parsed, chat::Field(&body, ""));
}

json with_schema(const json& schema) {
  return {
      {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}};
}

bool allowed(std::span<const std::uint32_t> mask, std::int32_t id) {
  return (mask[static_cast<std::size_t>(id / 32)] >> (id % 32) & 1U) == 0;
}

bool accepts(const AnswerGrammars::Automaton& form, const std::string& text) {
  sampling::GrammarConstraint constraint(form);
  for (const std::int32_t id : mini_tokenizer().encode_with_specials(text)) {
    if (!allowed(constraint.mask_after({}), id)) return false;
    constraint.accept(id);
  }
  return true;
}

std::string answer(const std::string& value) {
  return "<|content_text|>" + value + "<|end_message|><|content_model_end_sampling|>";
}

}  // namespace inkstone::test_support
