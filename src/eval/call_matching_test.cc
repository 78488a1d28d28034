// SPDX-License-Identifier: Apache-2.0
#include "eval/call_matching.h"

#include <gtest/gtest.h>

namespace inkstone::eval {
namespace {

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "book.table", "parameters": {
  "type": "object", "required": ["place", "people"], "properties": {
    "place": {"type": "string"}, "people": {"type": "integer"}, "price": {"type": "number"},
    "dishes": {"type": "array", "items": {"type": "string"}}, "inside": {"type": "boolean"},
    "guest": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}}}}}])";

constexpr const char* kOne = R"([{"book.table": {"place": ["Rome, Italy", "Rome"], "people": [4],
  "price": ["", 20.5, 30], "dishes": ["", ["soup", "fish"]], "inside": ["", true],
  "guest": ["", {"name": ["Mia"], "age": ["", 7]}]}}])";

bool match(const std::string& accept, const std::vector<std::string>& arguments,
           const std::string& name = "book.table") {
  const auto rule = chat::parse_json("{\"accept\": " + accept + "}", "rule");
  const auto tools = chat::parse_json(kTools, "tools");
  const auto read = read_call_rule(chat::Field(&*rule, "rule"), chat::Field(&*tools, "tools"));
  EXPECT_TRUE(read.has_value()) << read.error().message;
  std::vector<Call> calls;
  for (const std::string& text : arguments) calls.push_back(make_call(name, text));
  return calls_match(*read, calls);
}

bool one(const std::string& arguments) { return match(kOne, {arguments}); }

TEST(CallMatching, TakesAnyAcceptedValue) {
  EXPECT_TRUE(one(R"({"place": "Rome", "people": 4})"));
  EXPECT_TRUE(one(R"({"people": 4, "place": "Rome, Italy", "price": 30, "inside": true})"));
  EXPECT_FALSE(one(R"({"place": "Paris", "people": 4})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 5})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4, "inside": false})"));
}

TEST(CallMatching, ForgivesCaseSpacesAndPunctuationInTexts) {
  EXPECT_TRUE(one(R"({"place": "rome italy", "people": 4})"));
  EXPECT_TRUE(one(R"({"place": "ROME.", "people": 4, "dishes": ["Soup", "fi-sh"]})"));
  EXPECT_FALSE(one(R"({"place": "Rom", "people": 4})"));
}

TEST(CallMatching, WantsTheDeclaredTypes) {
  EXPECT_FALSE(one(R"({"place": "Rome", "people": "4"})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4.0})"));
  EXPECT_TRUE(one(R"({"place": "Rome", "people": 4, "price": 30.0})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4, "inside": "true"})"));
}

TEST(CallMatching, WantsListsInOrderAndOfTheirLength) {
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4, "dishes": ["fish", "soup"]})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4, "dishes": ["soup"]})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4, "dishes": []})"));
}

TEST(CallMatching, ChecksObjectsByTheirMembers) {
  EXPECT_TRUE(one(R"({"place": "Rome", "people": 4, "guest": {"name": "mia"}})"));
  EXPECT_TRUE(one(R"({"place": "Rome", "people": 4, "guest": {"name": "Mia", "age": 7}})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4, "guest": {"age": 7}})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4, "guest": {"name": "Mia", "size": 1}})"));
}

TEST(CallMatching, MissesNothingAndAllowsNothingMore) {
  EXPECT_FALSE(one(R"({"place": "Rome"})"));
  EXPECT_FALSE(one(R"({"place": "Rome", "people": 4, "day": "Monday"})"));
  EXPECT_FALSE(one(R"([1])"));
  EXPECT_FALSE(one(R"({"place": )"));
  // Declared optional, but the answer needs it.
  EXPECT_FALSE(match(R"([{"book.table": {"place": ["Rome"], "people": [4], "price": [9]}}])",
                     {R"({"place": "Rome", "people": 4})"}));
}

TEST(CallMatching, TakesAVariableWhereTheAnswerHasOne) {
  EXPECT_TRUE(match(R"([{"book.table": {"place": ["Rome"], "people": ["number_of_guests"]}}])",
                    {R"({"place": "Rome", "people": "number_of_guests"})"}));
}

constexpr const char* kTwo = R"([{"book.table": {"place": ["Rome"], "people": [4]}},
                                 {"book.table": {"place": ["Oslo"], "people": [2]}}])";

TEST(CallMatching, TakesParallelCallsInAnyOrderEachOnce) {
  const std::string rome = R"({"place": "Rome", "people": 4})";
  const std::string oslo = R"({"place": "Oslo", "people": 2})";
  EXPECT_TRUE(match(kTwo, {rome, oslo}));
  EXPECT_TRUE(match(kTwo, {oslo, rome}));
  EXPECT_FALSE(match(kTwo, {rome, rome}));
  EXPECT_FALSE(match(kTwo, {rome}));
  EXPECT_FALSE(match(kTwo, {rome, oslo, oslo}));
  EXPECT_FALSE(match(kTwo, {rome, oslo}, "book_table"));
}

TEST(CallMatching, NoneAcceptedMeansNoneMade) {
  EXPECT_TRUE(match("[]", {}));
  EXPECT_FALSE(match("[]", {R"({"place": "Rome", "people": 4})"}));
}

TEST(CallMatching, AnyMeansAtLeastOne) {
  CallRule rule;
  rule.any = true;
  EXPECT_FALSE(calls_match(rule, {}));
  EXPECT_TRUE(calls_match(rule, {make_call("whatever", "{}")}));
}

}  // namespace
}  // namespace inkstone::eval
