// SPDX-License-Identifier: Apache-2.0
#include "eval/scoring.h"

#include <gtest/gtest.h>

namespace inkstone::eval {
namespace {

Verdict verdict_on(const std::string& scoring, const Answer& answer) {
  const auto value = chat::parse_json("{\"scoring\": " + scoring + "}", "item");
  EXPECT_TRUE(value.has_value());
  const auto rule = read_rule(chat::Field(&*value, "item"));
  EXPECT_TRUE(rule.has_value()) << rule.error().message;
  return score(*rule, answer);
}

Verdict verdict_on(const std::string& scoring, const std::string& content) {
  Answer answer;
  answer.content = content;
  return verdict_on(scoring, answer);
}

std::string refusal_of(const std::string& item) {
  const auto value = chat::parse_json(item, "item");
  EXPECT_TRUE(value.has_value());
  const auto rule = read_rule(chat::Field(&*value, "item"));
  return rule ? "" : rule.error().message;
}

TEST(Equal, ComparesContentAndDecodedCallsButNotReasoning) {
  const auto item = chat::parse_json(
      R"({"expected": {"content": null, "calls": [{"name": "f", "arguments": {"b": 1, "a": "x"}}]}})",
      "item");
  const auto rule = read_rule(chat::Field(&*item, "item"));
  ASSERT_TRUE(rule.has_value());
  Answer answer;
  answer.reasoning = "I should call f.";
  answer.calls = {make_call("f", R"({"a":"x", "b":1})")};
  EXPECT_EQ(score(*rule, answer), Verdict::kCorrect);
  answer.calls[0] = make_call("f", R"({"a":"x","b":2})");
  EXPECT_EQ(score(*rule, answer), Verdict::kWrong);
  answer.calls[0] = make_call("f", R"({"a":"x","b":)");  // cut
  EXPECT_EQ(score(*rule, answer), Verdict::kWrong);
}

TEST(Contains, LooksForTheTextAnywhere) {
  constexpr const char* kRule = R"({"kind": "contains", "answer": "2398"})";
  EXPECT_EQ(verdict_on(kRule, "The secret number is 2398."), Verdict::kCorrect);
  EXPECT_EQ(verdict_on(kRule, "The secret number is 239 8."), Verdict::kWrong);
}

constexpr const char* kChoice =
    R"({"kind": "choice", "answer": "B", "choices": ["a dog", "a cat", "an owl"]})";

TEST(Choice, TakesTheLetterAfterTheLastAnswerMark) {
  EXPECT_EQ(verdict_on(kChoice, "Answer: A? No.\nAnswer: B"), Verdict::kCorrect);
  EXPECT_EQ(verdict_on(kChoice, "It barks, so not (B).\n**Answer:** (A)"), Verdict::kWrong);
}

TEST(Choice, ElseTheLastLetterInBracketsElseTheLastAlone) {
  EXPECT_EQ(verdict_on(kChoice, "(A) is wrong, so it is (B) after all. C"), Verdict::kCorrect);
  EXPECT_EQ(verdict_on(kChoice, "B"), Verdict::kCorrect);
  EXPECT_EQ(verdict_on(kChoice, "Not A but B."), Verdict::kCorrect);
  EXPECT_EQ(verdict_on(kChoice, "BAC"), Verdict::kWrong);
}

TEST(Choice, ElseTheTextOfAChoice) {
  EXPECT_EQ(verdict_on(kChoice, "i saw A Cat up there, not a dog? no: a cat"),
            Verdict::kWrong);  // A stands alone
  EXPECT_EQ(verdict_on(kChoice, "not a dog, it is a cat"), Verdict::kCorrect);
  EXPECT_EQ(verdict_on(kChoice, "no idea"), Verdict::kWrong);
}

constexpr const char* kWords =
    R"({"kind": "words", "answer": "a high tone", "choices": ["a high tone", "a low tone", "Noise"]})";

TEST(Words, WantsAllOfTheAnswerAndNoneOfTheOthers) {
  EXPECT_EQ(verdict_on(kWords, "I hear a High tone."), Verdict::kCorrect);
  EXPECT_EQ(verdict_on(kWords, "a tone"), Verdict::kWrong);
  EXPECT_EQ(verdict_on(kWords, "a high tone, not a low one"), Verdict::kWrong);
  EXPECT_EQ(verdict_on(kWords, ""), Verdict::kWrong);
}

TEST(Exact, ForgivesSpellingAndMarkup) {
  constexpr const char* kRule = R"({"kind": "exact", "answer": "Marie Curie"})";
  EXPECT_EQ(verdict_on(kRule, "Explanation: radium.\nAnswer: **marie curie**.\nConfidence: 90%"),
            Verdict::kCorrect);
  EXPECT_EQ(verdict_on(R"({"kind": "exact", "answer": "$x^2$"})", "Answer: $\\boxed{x^2}$"),
            Verdict::kCorrect);
}

TEST(Exact, DecidesNumbersAndLeavesOtherTextsToAJudge) {
  constexpr const char* kRule = R"({"kind": "exact", "answer": "1,024"})";
  EXPECT_EQ(verdict_on(kRule, "Answer: 1024.0"), Verdict::kCorrect);
  EXPECT_EQ(verdict_on(kRule, "Answer: 1025"), Verdict::kWrong);
  EXPECT_EQ(verdict_on(kRule, "Answer: two to the tenth"), Verdict::kNeedsJudge);
  EXPECT_EQ(verdict_on(kRule, ""), Verdict::kWrong);
}

TEST(Rules, AreRefusedByTheNameOfTheField) {
  EXPECT_NE(refusal_of(R"({})").find("item.expected"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"scoring": {"kind": "vote"}})").find("item.scoring.kind"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"scoring": {"kind": "exact"}})").find("item.scoring.answer"), std::string::npos);
  EXPECT_NE(refusal_of(R"({"scoring": {"kind": "choice", "answer": "C", "choices": ["x", "y"]}})")
                .find("one of the choices"),
            std::string::npos);
  EXPECT_NE(refusal_of(R"({"request": {"tools": []}, "scoring": {"kind": "calls", "accept": [{"f": {}}]}})")
                .find("does not declare 'f'"),
            std::string::npos);
}

}  // namespace
}  // namespace inkstone::eval
