// SPDX-License-Identifier: Apache-2.0
#include "eval/adapters/adapt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "eval/adapters/rows.h"
#include "eval/scoring.h"

namespace inkstone::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSuites = INKSTONE_SOURCE_DIR "/tests/data/suites/";

struct Adapted {
  std::vector<Json> items;
  std::vector<std::string> left_out;
  std::map<std::string, std::string> written;

  [[nodiscard]] Verdict verdict_on(std::size_t item, const Answer& answer) const {
    const auto value = chat::parse_json(items.at(item).dump(), "item");
    const auto rule = read_rule(chat::Field(&*value, "item"));
    EXPECT_TRUE(rule.has_value());
    return score(*rule, answer);
  }
  [[nodiscard]] Verdict verdict_on(std::size_t item, const std::string& content) const {
    Answer answer;
    answer.content = content;
    return verdict_on(item, answer);
  }
};

Adapted adapted(const std::string& kind, const std::string& rows, const std::string& answers = "") {
  Adapted result;
  const SetFolder folder{kSuites + "made", [&](const std::string& path, std::string_view bytes) -> Status {
                           result.written[path] = bytes;
                           return {};
                         }};
  const auto adaptation = adapt(kind, {kSuites + rows, answers.empty() ? "" : kSuites + answers}, folder);
  EXPECT_TRUE(adaptation.has_value()) << adaptation.error().message;
  if (!adaptation) return result;
  for (const std::string& line : adaptation->lines) result.items.push_back(Json::parse(line));
  result.left_out = adaptation->left_out;
  return result;
}

Answer calling(const std::vector<std::pair<std::string, std::string>>& calls) {
  Answer answer;
  for (const auto& [name, arguments] : calls) answer.calls.push_back(make_call(name, arguments));
  return answer;
}

Adapted bfcl() { return adapted("bfcl", "BFCL_v4_small.json", "possible_answer/BFCL_v4_small.json"); }

TEST(Bfcl, BecomesRequestsWithToolsInJsonSchema) {
  const Adapted set = bfcl();
  ASSERT_EQ(set.items.size(), 4U);
  const Json& request = set.items[0]["request"];
  EXPECT_EQ(request["messages"][0]["content"], "Water the roses for ten minutes.");
  const Json& function = request["tools"][0]["function"];
  EXPECT_EQ(function["name"], "garden.water");
  EXPECT_EQ(function["parameters"]["type"], "object");
  EXPECT_EQ(function["parameters"]["properties"]["minutes"]["type"], "number");
  EXPECT_EQ(function["parameters"]["properties"]["zones"]["type"], "array");
  EXPECT_EQ(function["parameters"]["properties"]["zones"]["items"]["type"], "integer");
  EXPECT_EQ(set.items[1]["request"]["messages"].size(), 2U);
  EXPECT_EQ(set.items[1]["request"]["tools"][0]["function"]["parameters"]["properties"]["on"]["type"],
            "boolean");
}

TEST(Bfcl, IsScoredByItsOwnRule) {
  const Adapted set = bfcl();
  EXPECT_EQ(set.verdict_on(0, calling({{"garden.water", R"({"plants": "The Roses", "minutes": 10})"}})),
            Verdict::kCorrect);
  EXPECT_EQ(set.verdict_on(0, calling({{"garden.water", R"({"plants": "roses", "minutes": 1})"}})),
            Verdict::kWrong);
  EXPECT_EQ(set.verdict_on(1, calling({{"lamp", R"({"room": "attic", "on": false})"},
                                       {"lamp", R"({"room": "hall", "on": true})"}})),
            Verdict::kCorrect);
  EXPECT_EQ(set.verdict_on(2, "A painter."), Verdict::kCorrect);  // irrelevance: no call is right
  EXPECT_EQ(set.verdict_on(2, calling({{"lamp", R"({"room": "hall"})"}})), Verdict::kWrong);
  EXPECT_EQ(set.verdict_on(3, calling({{"lamp", R"({"room": "hall"})"}})), Verdict::kCorrect);
  EXPECT_EQ(set.verdict_on(3, "Yes."), Verdict::kWrong);
}

TEST(Bfcl, NamesWhatItLeavesOut) {
  EXPECT_THAT(bfcl().left_out,
              ElementsAre(HasSubstr("simple_java_0: has values in the words of Java"),
                          HasSubstr("multi_turn_base_0: has turns, which have to be executed"),
                          HasSubstr("simple_python_1: has no answer"), HasSubstr("simple_python_2: ")));
}

TEST(MmmuPro, PutsPicturesWhereTheTextHasThem) {
  const Adapted set = adapted("mmmu-pro", "mmmu_pro.jsonl");
  ASSERT_EQ(set.items.size(), 2U);
  const Json& content = set.items[0]["request"]["messages"][0]["content"];
  ASSERT_EQ(content.size(), 7U);
  EXPECT_EQ(content[0]["text"], "Which of the shapes in ");
  EXPECT_EQ(content[1]["image_url"]["url"], "../pictures/square.png");
  EXPECT_EQ(content[2]["text"], " and ");
  EXPECT_EQ(content[3]["image_url"]["url"], "images/test_Art_1_2.png");
  EXPECT_THAT(content[4]["text"].get<std::string>(),
              HasSubstr("B. a painter's square\nC. none: 'blank'\nD. see "));
  EXPECT_EQ(content[5]["image_url"]["url"], "../pictures/square.png");
  ASSERT_EQ(set.written.count("images/test_Art_1_2.png"), 1U);
  EXPECT_EQ(set.written.at("images/test_Art_1_2.png").substr(1, 3), "PNG");
  EXPECT_EQ(set.items[1]["request"]["messages"][0]["content"].size(), 2U);  // vision: the picture has it all
  EXPECT_EQ(set.verdict_on(0, "Answer: B"), Verdict::kCorrect);
  EXPECT_EQ(set.verdict_on(0, "Answer: D"), Verdict::kWrong);
}

TEST(MmmuPro, NamesWhatItLeavesOut) {
  EXPECT_THAT(adapted("mmmu-pro", "mmmu_pro.jsonl").left_out,
              ElementsAre(HasSubstr("test_Art_3: <image 2> stands in the text"),
                          HasSubstr("test_Art_4: scoring.answer: must be the letter"),
                          HasSubstr("test_Art_5: options is no list of texts"),
                          HasSubstr("lost.png does not exist")));
}

TEST(Mmau, AsksForTheWordsOfAChoice) {
  const Adapted set = adapted("mmau", "mmau.json");
  ASSERT_EQ(set.items.size(), 1U);
  const Json& content = set.items[0]["request"]["messages"][0]["content"];
  EXPECT_EQ(content[0]["input_audio"]["file"], "../../evals/sounds/11.wav");
  EXPECT_EQ(content[0]["input_audio"]["format"], "wav");
  EXPECT_THAT(content[1]["text"].get<std::string>(), HasSubstr("It rises\nIt falls\nIt stays"));
  EXPECT_EQ(set.verdict_on(0, "it falls."), Verdict::kCorrect);
  EXPECT_EQ(set.verdict_on(0, "It rises, then it falls."), Verdict::kWrong);
  EXPECT_THAT(set.left_out, ElementsAre(HasSubstr("m-2: ")));
}

TEST(Hle, ScoresChoicesByLetterAndNamesWhatNeedsAJudge) {
  const Adapted set = adapted("hle", "hle.jsonl");
  ASSERT_EQ(set.items.size(), 2U);
  EXPECT_EQ(set.items[0]["scoring"]["choices"], (Json{"3", "4", "5"}));
  EXPECT_EQ(set.verdict_on(0, "Four is.\nAnswer: B"), Verdict::kCorrect);
  EXPECT_EQ(set.verdict_on(0, "Answer: C"), Verdict::kWrong);
  EXPECT_EQ(set.verdict_on(1, "Answer: a square."), Verdict::kCorrect);
  EXPECT_EQ(set.verdict_on(1, "Answer: a quadrilateral of equal sides and angles"), Verdict::kNeedsJudge);
  EXPECT_EQ(set.written.count("images/h_2.png"), 1U);  // no name leads out of the folder
  EXPECT_THAT(set.left_out, ElementsAre(HasSubstr("h/3: ")));
}

TEST(PythonLists, AreReadAsPythonPrintsThem) {
  const auto items = [](const std::string& text) {
    return parse_python_list(text).value_or(std::vector<std::string>{"?"});
  };
  EXPECT_THAT(items(R"(['a', "it's", 'b\'c', 'x\\y\n', '$\\alpha$', '\pi'])"),
              ElementsAre("a", "it's", "b'c", "x\\y\n", "$\\alpha$", "\\pi"));
  EXPECT_THAT(items("[]"), ElementsAre());
  for (const char* bad : {"", "[", "['a'", "['a]", "[1]", "'a'", R"(['\x41'])"})
    EXPECT_FALSE(parse_python_list(bad).has_value()) << bad;
}

TEST(Adapt, RefusesWhatItDoesNotKnow) {
  const SetFolder folder{".", [](const std::string&, std::string_view) { return Status(); }};
  EXPECT_THAT(adapt("mmlu", {kSuites + "hle.jsonl", ""}, folder).error().message,
              HasSubstr("no adapter 'mmlu'"));
  EXPECT_THAT(adapt("hle", {kSuites + "hle.jsonl", "x"}, folder).error().message, HasSubstr("in its rows"));
  EXPECT_THAT(adapt("hle", {kSuites + "none.jsonl", ""}, folder).error().message, HasSubstr("none.jsonl"));
}

}  // namespace
}  // namespace inkstone::eval
