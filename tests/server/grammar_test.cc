// SPDX-License-Identifier: Apache-2.0
// Schemas and forced calls as masks over tokens: exact, for the shipped and for the real vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "sampling/grammar_automaton.h"
#include "tests/server/grammar_rig.h"
#include "tests/support/real_tokenizer.h"

namespace inkstone::test_support {
namespace {

using nlohmann::json;
using sampling::GrammarAutomaton;
using server::AnswerGrammars;
using testing::HasSubstr;

struct SchemaCase {
  json schema;
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

std::vector<SchemaCase> schema_cases() {
  const json object = {{"type", "object"},
                       {"properties", {{"a", {{"type", "integer"}}}, {"b", {{"type", "string"}}}}},
                       {"required", {"a"}}};
  const json list = {
      {"$defs",
       {{"node",
         {{"type", "object"},
          {"properties", {{"next", {{"anyOf", {{{"type", "null"}}, {{"$ref", "#/$defs/node"}}}}}}}},
          {"required", {"next"}}}}}},
      {"$ref", "#/$defs/node"}};
  return {
      {object,
       {R"({"a":1})", R"({"a": 1, "b": "x"})", R"({"a":-0,"b":""})"},
       {R"({"b":"x"})", R"({"a":1,})", R"({"a":01})", R"({"a":1.5})", R"({ "a":1})", R"({"a":1}x)"}},
      {{{"type", "string"}, {"minLength", 1}, {"maxLength", 2}},
       {R"("a")", "\"\xC3\xA9\xF0\x9F\xA6\x91\"", R"("\n\u00e9")"},
       {R"("")", R"("abc")", R"("\ud800")", "\"a"}},
      {{{"type", "integer"}, {"minimum", -12}, {"exclusiveMaximum", 105}},
       {"-12", "-1", "0", "9", "99", "104"},
       {"-13", "105", "-0", "01", "1000"}},
      {{{"type", "array"}, {"items", {{"type", "boolean"}}}, {"minItems", 1}, {"maxItems", 3}},
       {"[true]", "[true, false,true]"},
       {"[]", "[true,true,true,true]", "[1]"}},
      {{{"enum", {"red", 7, nullptr}}}, {"\"red\"", "7", "null"}, {"\"re\"", "70", "8"}},
      {{{"const", {{"k", {1, 2}}}}}, {R"({"k":[1,2]})"}, {R"({"k":[1]})"}},
      {{{"type", {"number", "null"}}}, {"1.5e-3", "-2", "null", "0.25"}, {"1.", ".5", "nul", "+1"}},
      {list, {R"({"next":null})", R"({"next":{"next":{"next":null}}})"}, {R"({"next":{}})", R"({})"}},
      {json::object(), {"[1,{\"x\":[]}]", "\"t\"", "{}"}, {"[1", "tru"}},
      {{{"type", "object"}, {"additionalProperties", {{"type", "integer"}}}},
       {"{}", R"({"p":1,"q":2})"},
       {R"({"p":"1"})"}},
      {{{"oneOf", {{{"type", "string"}}, {{"type", "integer"}}}}}, {"\"x\"", "3"}, {"1.5", "true"}},
  };
}

TEST(AnswerGrammar, AcceptsExactlyTheValuesOfASchema) {
  for (const SchemaCase& c : schema_cases()) {
    const auto form = compile(grammars(), with_schema(c.schema));
    ASSERT_TRUE(form) << c.schema << form.error().message;
    for (const std::string& value : c.good) EXPECT_TRUE(accepts(*form, answer(value))) << c.schema << value;
    for (const std::string& value : c.bad) EXPECT_FALSE(accepts(*form, answer(value))) << c.schema << value;
  }
}

TEST(AnswerGrammar, LetsTheModelThinkFirstAndEndItsTurn) {
  const auto form = compile(grammars(), with_schema({{"type", "integer"}}));
  ASSERT_TRUE(form);
  EXPECT_TRUE(accepts(*form, "<|content_thinking|>a {} \" b<|end_message|><|message_model|>" + answer("12")));
  EXPECT_TRUE(accepts(*form, answer("12")));
  EXPECT_FALSE(accepts(*form, "12<|end_message|>")) << "a block has its kind";
  EXPECT_FALSE(accepts(*form, "<|content_text|>12<|content_model_end_sampling|>")) << "and its end";
  EXPECT_FALSE(accepts(*form, answer("12") + "<|content_model_end_sampling|>"));
}

json tools() {
  const json weather = {
      {"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}, {"required", {"city"}}};
  return {{{"type", "function"}, {"function", {{"name", "get_weather"}, {"parameters", weather}}}},
          {{"type", "function"}, {"function", {{"name", "now"}}}}};
}

std::string call(const std::string& name, const std::string& args) {
  return name + "<|content_invoke_tool_json|>{\"name\":\"" + name + "\",\"args\":" + args +
         "}<|end_message|>";
}

// A call with values nested as deeply as `number` has digits: each binary digit opens an array or an object.
std::string nested_call(unsigned number) {
  std::string open;
  std::string close;
  for (; number > 1; number /= 2) {
    open += number % 2 == 0 ? "[" : R"({"k":)";
    close.insert(0, number % 2 == 0 ? "]" : "}");
  }
  return call("now", R"({"a":)" + open + "1" + close + "}") + "<|content_model_end_sampling|>";
}

TEST(AnswerGrammar, WhatIsMadeAheadLeavesRoomForAnswers) {
  const auto form = compile(grammars(), {{"tools", tools()}, {"tool_choice", "required"}});
  ASSERT_TRUE(form);
  (*form)->prepare(std::chrono::minutes(10));  // as on a machine without limits of speed
  EXPECT_FALSE((*form)->is_worn());
  EXPECT_LT((*form)->num_states(), GrammarAutomaton::kMaxStates / 4);
  EXPECT_TRUE(accepts(*form, nested_call(0x5A5A5A)));
}

TEST(AnswerGrammar, AWornFormIsMadeAnewForTheNextAnswer) {
  const json members = {{"tools", tools()}, {"tool_choice", "required"}, {"parallel_tool_calls", false}};
  const auto first = compile(grammars(), members);
  ASSERT_TRUE(first);
  EXPECT_EQ(*compile(grammars(), members), *first);
  unsigned number = 1U << 12U;
  while (!(*first)->is_worn()) ASSERT_TRUE(accepts(*first, nested_call(++number)));
  const auto next = compile(grammars(), members);
  ASSERT_TRUE(next);
  EXPECT_NE(*next, *first);
  EXPECT_TRUE(accepts(*next, nested_call(number)));
  EXPECT_TRUE(accepts(*first, nested_call(number))) << "answers that go on keep theirs";
}

TEST(AnswerGrammar, ForcesCalls) {
  const std::string end = "<|content_model_end_sampling|>";
  const std::string weather = call("get_weather", R"({"city":"SF"})");
  const auto required = compile(grammars(), {{"tools", tools()}, {"tool_choice", "required"}});
  ASSERT_TRUE(required);
  EXPECT_TRUE(accepts(*required, weather + end));
  EXPECT_TRUE(accepts(*required, call("now", R"({"any":[1]})") + "<|message_model|>" + weather + end));
  EXPECT_FALSE(accepts(*required, call("get_weather", "{}") + end));
  EXPECT_FALSE(accepts(*required, call("other", "{}") + end));
  EXPECT_FALSE(accepts(*required, answer("hello")));
  EXPECT_FALSE(accepts(*required, end));

  const json now = {{"type", "function"}, {"function", {{"name", "now"}}}};
  const auto named = compile(grammars(), {{"tools", tools()}, {"tool_choice", now}});
  ASSERT_TRUE(named);
  EXPECT_TRUE(accepts(*named, call("now", "{}") + end));
  EXPECT_FALSE(accepts(*named, weather + end));
  EXPECT_FALSE(accepts(*named, call("now", "{}") + "<|message_model|>" + call("now", "{}") + end));

  const auto single =
      compile(grammars(), {{"tools", tools()}, {"tool_choice", "required"}, {"parallel_tool_calls", false}});
  ASSERT_TRUE(single);
  EXPECT_FALSE(accepts(*single, weather + "<|message_model|>" + weather + end));
}

TEST(AnswerGrammar, RefusesWhatItCannotGuaranteeByName) {
  for (const auto& [schema, where] : std::vector<std::pair<json, std::string>>{
           {{{"type", "string"}, {"pattern", "(?=a)"}}, "response_format.json_schema.schema.pattern"},
           {{{"type", "object"}, {"properties", {{"x", {{"type", "string"}, {"format", "iri"}}}}}},
            "schema.properties.x.format"},
           {{{"type", "number"}, {"multipleOf", 0.01}}, "schema.multipleOf"},
           {{{"type", {"string", "null"}}, {"pattern", "("}}, "schema.pattern"},
           {{{"not", json::object()}}, "schema.not"},
           {{{"type", "wizard"}}, "schema.type"},
           {{{"$ref", "#/$defs/none"}}, "schema.$ref"},
           {{{"type", "integer"}, {"minimum", 3}, {"maximum", 2}}, "schema"},
           {{{"type", "string"}, {"maxLength", 1e9}}, "schema.maxLength"}}) {
    const auto form = compile(grammars(), with_schema(schema));
    ASSERT_FALSE(form) << schema;
    EXPECT_THAT(form.error().message, HasSubstr(where)) << schema;
  }
}

TEST(AnswerGrammar, KeepsWhatItCompiled) {
  const json members = with_schema({{"type", "integer"}, {"maximum", 77}});
  EXPECT_EQ(*compile(grammars(), members), *compile(grammars(), members));
  EXPECT_EQ(*compile(grammars(), json::object()), nullptr) << "a free form has no automaton";
}

TEST(AnswerGrammar, MasksAreWhatAWalkOfEachTokenSays) {
  std::mt19937 source(5);
  for (AnswerGrammars* all : {&grammars()}) {
    for (const SchemaCase& c : schema_cases()) {
      const auto form = *compile(*all, with_schema(c.schema));
      sampling::GrammarConstraint constraint(form);
      GrammarAutomaton::State state = form->start();
      const std::int32_t vocabulary = mini_tokenizer().vocabulary_size();
      for (int step = 0; step < 12; ++step) {
        const std::span<const std::uint32_t> mask = form->mask(state);
        std::vector<std::int32_t> open;
        for (std::int32_t id = 0; id < vocabulary; ++id) {
          const bool ends = id == mini_special_tokens().end_sampling;
          if (!ends) {
            ASSERT_EQ(allowed(mask, id), form->after(state, id) != GrammarAutomaton::kDead) << c.schema << id;
          }
          if (allowed(mask, id) && !ends) open.push_back(id);
        }
        if (open.empty()) break;
        state = form->after(state, open[source() % open.size()]);
      }
    }
  }
}

TEST(AnswerGrammar, DraftsAreJudgedLikeTokens) {
  const auto form = *compile(grammars(), with_schema({{"type", "integer"}}));
  sampling::GrammarConstraint constraint(form);
  const std::vector<std::int32_t> ids = mini_tokenizer().encode_with_specials(answer("12"));
  for (std::size_t count = 0; count < ids.size(); ++count)
    EXPECT_TRUE(allowed(constraint.mask_after(std::span(ids).first(count)), ids[count])) << count;
  const std::vector<std::int32_t> wrong = mini_tokenizer().encode_with_specials("<|content_text|>x");
  EXPECT_TRUE(constraint.mask_after(wrong).empty());
  EXPECT_TRUE(allowed(constraint.mask_after({}), ids[0])) << "nothing was accepted";
}

// Uniform draws under the mask: as far from a sensible model as can be.
TEST(AnswerGrammar, EveryRandomAnswerIsValidJson) {
  AnswerGrammars real(real_tokenizer(), real_special_tokens());
  const json schema = {{"type", "object"},
                       {"properties",
                        {{"name", {{"type", "string"}, {"maxLength", 6}}},
                         {"n", {{"type", "integer"}}},
                         {"list", {{"type", "array"}, {"items", {{"type", "number"}}}, {"maxItems", 3}}}}},
                       {"required", {"name", "n", "list"}}};
  const auto form = *compile(real, with_schema(schema));
  const text::SpecialTokens& tokens = real_special_tokens();
  std::mt19937 source(3);
  for (int round = 0; round < 40; ++round) {
    sampling::GrammarConstraint constraint(form);
    std::vector<std::int32_t> ids = {tokens.content_text};
    constraint.accept(tokens.content_text);
    while (ids.back() != tokens.end_sampling) {
      const std::span<const std::uint32_t> mask = constraint.mask_after({});
      std::vector<std::int32_t> open;
      for (std::int32_t id = 0; id < real_tokenizer().vocabulary_size(); ++id)
        if (allowed(mask, id)) open.push_back(id);
      ASSERT_FALSE(open.empty());
      ids.push_back(open[source() % open.size()]);
      constraint.accept(ids.back());
      ASSERT_LT(ids.size(), 400U);
    }
    const std::string text = real_tokenizer().decode(ids, text::Tokenizer::Specials::kSkip);
    const json value = json::parse(text, nullptr, false);
    ASSERT_TRUE(value.is_object()) << text;
    EXPECT_TRUE(value["name"].is_string() && value["n"].is_number_integer() && value["list"].is_array())
        << text;
  }
}

}  // namespace
}  // namespace inkstone::test_support
