// SPDX-License-Identifier: Apache-2.0
// server/grammar/answer_grammar.h - what a request demands of the form of its answer (tool_choice,
// response_format) to an automaton over tokens, control tokens of the turn included. Compiled on workers, and
// kept for the next request of the same form.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "chat/chat_request.h"
#include "chat/json_field.h"
#include "sampling/grammar_automaton.h"
#include "text/special_tokens.h"

namespace inkstone::server {

// Any thread.
class AnswerGrammars {
 public:
  using Automaton = std::shared_ptr<sampling::GrammarAutomaton>;

  // The vocabulary is sorted here: takes a moment with a large one.
  AnswerGrammars(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens);

  // None: the request leaves the form free. `body` is the request's JSON, for the names in errors.
  Result<Automaton> find(const chat::ChatRequest& request, const chat::Field& body);

 private:
  Result<Automaton> compile(const chat::ChatRequest& request, const chat::Field& body) const;

  text::SpecialTokens tokens_;
  std::shared_ptr<const sampling::VocabularyBytes> vocabulary_;
  std::mutex mutex_;
  std::map<std::string, Automaton> automata_;
  std::deque<std::string> order_;  // oldest first
};

}  // namespace inkstone::server
