// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/answer_grammar.h"

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "server/grammar/schema_grammar.h"

namespace inkstone::server {
namespace {

using chat::ChatRequest;
using chat::Field;
using chat::ToolChoice;
using sampling::Grammar;
using Node = Grammar::Node;

constexpr std::size_t kMaxKept = 16;
constexpr std::chrono::milliseconds kPreparation{200};
constexpr std::size_t kMaxSchemaBytes = 256 * 1024;

bool forces_calls(const ChatRequest& request) {
  return request.tool_choice.kind == ToolChoice::Kind::kRequired ||
         request.tool_choice.kind == ToolChoice::Kind::kNamed;
}

// The blocks of one turn (chat.md 2.1, 3.2, 4). The opener of the first block stands in the prompt.
class TurnBuilder {
 public:
  TurnBuilder(const text::SpecialTokens& tokens, const ChatRequest& request, const Field& body)
      : tokens_(tokens), request_(request), body_(body), rules_(grammar_) {}

  Result<Node> build() {
    const Node start = grammar_.add_node();
    const Node block = add_thinking(start);
    end_ = grammar_.add_node();
    if (forces_calls(request_)) {
      INK_TRY(add_calls(block));
    } else {
      INK_TRY(add_text(block));
      if (!request_.tools.empty() && request_.tool_choice.kind == ToolChoice::Kind::kAuto)
        INK_TRY(add_calls(block));
    }
    end_ = grammar_.token(end_, tokens_.end_sampling);
    return start;
  }
  [[nodiscard]] Node end() const { return end_; }
  Grammar take() { return std::move(grammar_); }

 private:
  // Any number of thinking blocks; gives the node where another block may begin.
  Node add_thinking(Node from) {
    const Node loop = grammar_.add_node();
    grammar_.link(from, loop);
    const Node inside = grammar_.token(loop, tokens_.content_thinking);
    grammar_.byte_to(inside, 0x00, 0xFF, inside);
    grammar_.link(grammar_.token(grammar_.token(inside, tokens_.end_message), tokens_.message_model), loop);
    return loop;
  }

  Status add_text(Node from) {
    const Node begin = grammar_.token(from, tokens_.content_text);
    const Field format = body_["response_format"];
    const Node value = format["type"].is_string() && format["type"].value().text == "json_object"
                           ? rules_.any_object(begin)
                           : INK_TRY(add_schema(format["json_schema"]["schema"], begin));
    grammar_.link(grammar_.token(value, tokens_.end_message), end_);
    return {};
  }

  Result<Node> add_schema(const Field& schema, Node from) {
    return SchemaGrammar(grammar_, rules_, schema).add_value(schema, from);
  }

  // One call, or several with thinking between them.
  Status add_calls(Node from) {
    const bool named = request_.tool_choice.kind == ToolChoice::Kind::kNamed;
    const Node begin = grammar_.add_node();
    grammar_.link(from, begin);
    const Node closed = grammar_.add_node();
    for (const chat::Tool& tool : request_.tools) {
      if (named && tool.name != request_.tool_choice.name) continue;
      grammar_.link(INK_TRY(add_call(tool, begin)), closed);
    }
    grammar_.link(closed, end_);
    if (named || !request_.parallel_tool_calls) return {};
    const Node next = add_thinking(grammar_.token(closed, tokens_.message_model));
    grammar_.link(next, begin);
    return {};
  }

  Result<Node> add_call(const chat::Tool& tool, Node from) {
    Node at = grammar_.token(grammar_.literal(from, tool.name), tokens_.content_tool_call);
    at = rules_.separator(grammar_.literal(at, "{\"name\""), ':');
    at = rules_.separator(grammar_.literal(at, fmt::format("\"{}\"", tool.name)), ',');
    at = rules_.separator(grammar_.literal(at, "\"args\""), ':');
    at = INK_TRY(add_arguments(tool, at));
    return grammar_.token(grammar_.literal(at, "}"), tokens_.end_message);
  }

  // Arguments are an object, whatever the schema says or leaves out.
  Result<Node> add_arguments(const chat::Tool& tool, Node from) {
    if (tool.parameters.empty()) return rules_.any_object(from);
    const std::string what = fmt::format("tools['{}'].parameters", tool.name);
    const chat::JsonValue schema = INK_TRY(chat::parse_json(tool.parameters, what));
    const Field field(&schema, what);
    if (!field.is_object() || schema.members.empty()) return rules_.any_object(from);
    const Field type = field["type"];
    if (type.is_string() && type.value().text != "object") return type.refuse("must be 'object'");
    return add_schema(field, from);
  }

  text::SpecialTokens tokens_;
  const ChatRequest& request_;
  const Field& body_;
  Grammar grammar_;
  JsonRules rules_;
  Node end_ = 0;
};

// Whether the answer is to be JSON.
Result<bool> wants_json(const Field& body) {
  const Field format = body["response_format"];
  if (!format.present()) return false;
  const std::string type = INK_TRY(format["type"].string());
  if (type == "text") return false;
  if (type == "json_object") return true;
  if (type != "json_schema") return format["type"].refuse("must be 'text', 'json_object' or 'json_schema'");
  if (!format["json_schema"]["schema"].present()) return format["json_schema"]["schema"].refuse("is missing");
  return true;
}

Status check_fields(const ChatRequest& request, const Field& body) {
  if (request.continue_final_message)
    return body["continue_final_message"].refuse("cannot be combined with a constrained answer");
  if (!request.add_generation_prompt)
    return body["add_generation_prompt"].refuse("must be true for a constrained answer");
  for (const std::string_view name : {"ignore_eos", "min_tokens"})
    if (body[name].present() && !(body[name].is(chat::JsonValue::Kind::kBool) && !body[name].value().boolean))
      return body[name].refuse("cannot be combined with a constrained answer");
  return {};
}

std::string key_of(const ChatRequest& request, bool json) {
  std::string key =
      fmt::format("{}|{}|{}|{}|", json ? request.response_format : "", request.parallel_tool_calls,
                  static_cast<int>(request.tool_choice.kind), request.tool_choice.name);
  for (const chat::Tool& tool : request.tools) key += fmt::format("{}={}\n", tool.name, tool.parameters);
  return key;
}

}  // namespace

AnswerGrammars::AnswerGrammars(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens)
    : tokens_(tokens), vocabulary_(std::make_shared<const sampling::VocabularyBytes>(tokenizer)) {}

Result<AnswerGrammars::Automaton> AnswerGrammars::find(const ChatRequest& request, const Field& body) {
  const bool json = INK_TRY(wants_json(body));
  if (!json && !forces_calls(request)) return nullptr;
  INK_TRY(check_fields(request, body));
  const std::string key = key_of(request, json);
  if (key.size() > kMaxSchemaBytes)
    return fail(ErrorKind::kTooLarge,
                fmt::format("{}: the schemas have {} bytes, at most {} are compiled",
                            json ? "response_format" : "tools", key.size(), kMaxSchemaBytes));
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = automata_.find(key); known != automata_.end() && !known->second->is_worn())
      return known->second;
  }
  Automaton automaton = INK_TRY(compile(request, body));
  const std::scoped_lock lock(mutex_);
  if (automata_.insert_or_assign(key, automaton).second) order_.push_back(key);
  if (order_.size() > kMaxKept) {
    automata_.erase(order_.front());
    order_.pop_front();
  }
  return automaton;
}

Result<AnswerGrammars::Automaton> AnswerGrammars::compile(const ChatRequest& request,
                                                          const Field& body) const {
  TurnBuilder turn(tokens_, request, body);
  const Node start = INK_TRY(turn.build());
  auto automaton = std::make_shared<sampling::GrammarAutomaton>(turn.take(), start, turn.end(), vocabulary_);
  automaton->prepare(kPreparation);
  return automaton;
}

}  // namespace inkstone::server
