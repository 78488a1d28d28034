// SPDX-License-Identifier: Apache-2.0
#include "eval/task_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace inkstone::eval {
namespace {

const std::string kFolder = INKSTONE_SOURCE_DIR "/tests/data/evals";

TEST(TaskSets, AreReadByNameOrAllOfAFolder) {
  const auto all = read_task_sets(kFolder, {});
  ASSERT_TRUE(all.has_value()) << all.error().message;
  ASSERT_EQ(all->size(), 13U);
  EXPECT_EQ(all->front().name, "audio");
  EXPECT_EQ(all->back().name, "vision");
  const auto two = read_task_sets(kFolder, {"tool_calls", "facts"});
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ((*two)[0].name, "tool_calls");
  EXPECT_EQ((*two)[1].items.size(), 40U);
  const auto none = read_task_sets(kFolder, {"fact"});
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message.find("audio, copying, facts"), std::string::npos);
}

// The rule and the recorded verdict are two ways to the same number.
TEST(TaskSets, ScoreTheReferenceAsItScoredItself) {
  const auto sets = read_task_sets(kFolder, {});
  ASSERT_TRUE(sets.has_value());
  int items = 0;
  for (const TaskSet& set : *sets) {
    for (const Item& item : set.items) {
      ASSERT_TRUE(item.reference.has_value()) << item.id;
      const Verdict verdict = score(item.rule, item.reference->answer);
      EXPECT_EQ(verdict == Verdict::kCorrect, item.reference->correct) << item.id;
      ++items;
    }
  }
  EXPECT_EQ(items, 354);
}

std::string error_in(const std::string& lines) {
  const std::string path = ::testing::TempDir() + "eval_task_set.jsonl";
  std::ofstream(path) << lines;
  const auto set = read_task_set(path);
  std::filesystem::remove(path);
  return set ? "" : set.error().message;
}

constexpr const char* kGood = R"({"id": "a", "request": {"messages": []}, "expected": {"content": "x"}})";

TEST(TaskSets, NameTheLineAtFault) {
  EXPECT_EQ(error_in(std::string(kGood) + "\n\n"), "");
  EXPECT_NE(error_in(std::string(kGood) + "\n{").find("eval_task_set.jsonl:2"), std::string::npos);
  EXPECT_NE(error_in(std::string(kGood) + "\n" + kGood).find("second item 'a'"), std::string::npos);
  EXPECT_NE(error_in(R"({"request": {}})").find("id: is missing"), std::string::npos);
  EXPECT_NE(error_in(R"({"id": "a"})").find("request: must be an object"), std::string::npos);
  EXPECT_NE(error_in("\n").find("holds no items"), std::string::npos);
}

}  // namespace
}  // namespace inkstone::eval
