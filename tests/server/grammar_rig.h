// SPDX-License-Identifier: Apache-2.0
// tests/server/grammar_rig.h - forms of answers, compiled for the shipped vocabulary, and whether texts have
// them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "server/grammar/answer_grammar.h"

namespace inkstone::test_support {

// For the shipped vocabulary.
server::AnswerGrammars& grammars();

// Of a chat request with these members.
Result<server::AnswerGrammars::Automaton> compile(server::AnswerGrammars& all, const nlohmann::json& members);

// The member that asks for a schema.
nlohmann::json with_schema(const nlohmann::json& schema);

bool allowed(std::span<const std::uint32_t> mask, std::int32_t id);

// Whether the ids are a whole answer of the form: each allowed where it stands.
bool accepts(const server::AnswerGrammars::Automaton& form, const std::string& text);

// The whole answer around a value.
std::string answer(const std::string& value);

}  // namespace inkstone::test_support
