// SPDX-License-Identifier: Apache-2.0
#include "eval/report.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace inkstone::eval {
namespace {

Item item_of(const std::string& id, const std::string& content, bool reference_correct) {
  Item item;
  item.id = id;
  item.rule.expected.content = content;
  item.reference = Reference{Answer{}, reference_correct};
  item.reference->answer.ids = {1, 2, 3};
  item.reference->answer.content = content;
  item.prompt_tokens = 5;
  return item;
}

// The second item is wrong, and the reference says so.
struct Example {
  TaskSet set{"facts", {item_of("facts-0", "yes", true), item_of("facts-1", "no", false)}};
  std::vector<Answer> answers{set.items[0].reference->answer, set.items[1].reference->answer};
};

TEST(Wilson, MeetsPublishedValues) {
  EXPECT_NEAR(wilson(39, 40).low, 0.8712, 5e-4);
  EXPECT_NEAR(wilson(39, 40).high, 0.9956, 5e-4);
  EXPECT_NEAR(wilson(0, 10).high, 0.2775, 5e-4);
  EXPECT_EQ(wilson(0, 10).low, 0.0);
  EXPECT_DOUBLE_EQ(wilson(10, 10).high, 1.0);
  EXPECT_EQ(wilson(0, 0).low, 0.0);
  EXPECT_EQ(wilson(0, 0).high, 1.0);
}

TEST(Report, CountsCorrectAnswersAndEqualOnes) {
  const Example example;
  const SetReport report = report_on(example.set, example.answers);
  EXPECT_EQ(report.items, 2);
  EXPECT_EQ(report.correct, 2);
  EXPECT_EQ(report.reference_correct, 1);
  EXPECT_TRUE(report.differences.empty());
}

TEST(Report, NamesWhatDiffers) {
  Example example;
  example.answers[1].ids = {1, 2, 4};
  example.answers[1].content = "maybe";
  example.answers[1].prompt_tokens = 6;
  const SetReport report = report_on(example.set, example.answers);
  ASSERT_EQ(report.differences.size(), 1U);
  EXPECT_EQ(report.differences[0].id, "facts-1");
  EXPECT_EQ(report.differences[0].fields, (std::vector<std::string>{"ids", "content", "prompt_tokens"}));
  EXPECT_EQ(report.differences[0].first_id_idx, 2U);
  EXPECT_TRUE(any_difference(std::vector{report}));
  const std::string text = table(std::vector{report});
  EXPECT_NE(text.find("facts facts-1: ids, content, prompt_tokens differ, ids from index 2: \"maybe\", the "
                      "reference \"no\""),
            std::string::npos)
      << text;
}

TEST(Report, ComparesIdsOnlyWhereBothAreKnown) {
  Example example;
  example.answers[0].ids.clear();
  EXPECT_TRUE(report_on(example.set, example.answers).differences.empty());
}

TEST(Report, IsATableAndADocument) {
  const Example example;
  std::vector<SetReport> reports{report_on(example.set, example.answers), not_run(example.set, "no reason")};
  reports[0].needs_judge = 1;
  EXPECT_EQ(
      table(reports),
      "set            items  correct  accuracy     95 % interval  reference   differ\n"
      "facts              2        2   100.0 %    34.2 - 100.0 %     50.0 %        0   1 more need a judge\n"
      "facts          not run: no reason\n"
      "all                2        2   100.0 %    34.2 - 100.0 %     50.0 %        0   1 more need a "
      "judge\n");
  const nlohmann::ordered_json document = to_json(reports);
  EXPECT_EQ(document["sets"][0]["correct"], 2);
  EXPECT_EQ(document["sets"][0]["reference_correct"], 1);
  EXPECT_EQ(document["sets"][1]["not_run"], "no reason");
  EXPECT_EQ(document["total"]["items"], 2);
}

std::string error_of_summary(const std::string& summary) {
  const std::string path = ::testing::TempDir() + "eval_summary.json";
  std::ofstream(path) << summary;
  const Example example;
  std::vector<SetReport> reports{report_on(example.set, example.answers)};
  const Status status = add_summary(path, reports);
  std::filesystem::remove(path);
  return status ? "" : status.error().message;
}

TEST(Summary, MustAgreeWithTheSets) {
  EXPECT_EQ(error_of_summary(R"({"facts": {"items": 2, "reference_correct": 1}})"), "");
  EXPECT_NE(error_of_summary(R"({"facts": {"items": 3, "reference_correct": 1}})").find("facts.items"),
            std::string::npos);
  EXPECT_NE(error_of_summary(R"({"facts": {"items": 2, "reference_correct": 2}})").find("reference_correct"),
            std::string::npos);
  EXPECT_NE(error_of_summary(R"({"other": {"items": 2, "reference_correct": 1}})").find("facts"),
            std::string::npos);
  EXPECT_NE(error_of_summary("[]").find("must be an object"), std::string::npos);
}

}  // namespace
}  // namespace inkstone::eval
