// SPDX-License-Identifier: Apache-2.0
#include "eval/results_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace inkstone::eval {
namespace {

constexpr const char* kSettings = R"({"model":"m","max_tokens":150})";

class ResultsFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "results_" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".jsonl";
    std::filesystem::remove(path_);
    item_.id = "a-0";
    item_.request = R"({"messages":[]})";
    answer_.ids = {1, 2};
    answer_.content = "line\nbreak \"quoted\"";
    answer_.calls = {make_call("f", R"({"x":1.5})"), make_call("g", R"({"cut)")};
    answer_.prompt_tokens = 7;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void keep_one() {
    auto results = ResultsFile::open(path_, kSettings);
    ASSERT_TRUE(results.has_value()) << results.error().message;
    ASSERT_TRUE(results->add("a", item_, answer_).has_value());
  }
  void append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  std::string path_;
  Item item_;
  Answer answer_;
};

TEST_F(ResultsFileTest, GivesBackWhatAnEarlierRunKept) {
  keep_one();
  const auto results = ResultsFile::open(path_, kSettings);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  const Answer* kept = results->find("a", item_);
  ASSERT_NE(kept, nullptr);
  EXPECT_TRUE(differing_fields(*kept, answer_).empty());
  EXPECT_EQ(kept->ids, answer_.ids);
  EXPECT_EQ(kept->prompt_tokens, 7);
  EXPECT_EQ(results->find("b", item_), nullptr);
}

TEST_F(ResultsFileTest, AsksAnItemAgainThatHasChanged) {
  keep_one();
  const auto results = ResultsFile::open(path_, kSettings);
  item_.request += " ";
  EXPECT_EQ(results->find("a", item_), nullptr);
}

TEST_F(ResultsFileTest, CutsALineThatWasNeverFinished) {
  keep_one();
  append(R"({"set":"a","id":"a-1","req)");
  keep_one();  // appends behind whole lines
  const auto results = ResultsFile::open(path_, kSettings);
  ASSERT_TRUE(results.has_value()) << results.error().message;
  EXPECT_NE(results->find("a", item_), nullptr);
}

TEST_F(ResultsFileTest, RefusesOtherSettingsAndDamage) {
  keep_one();
  const auto other = ResultsFile::open(path_, R"({"model":"m","max_tokens":151})");
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("other settings"), std::string::npos);
  append("not json\n");
  const auto damaged = ResultsFile::open(path_, kSettings);
  ASSERT_FALSE(damaged.has_value());
  EXPECT_NE(damaged.error().message.find(":3"), std::string::npos) << damaged.error().message;
}

TEST_F(ResultsFileTest, RefusesAFileOfAnotherKind) {
  append("{\"id\":\"facts-000\"}\n");
  const auto results = ResultsFile::open(path_, kSettings);
  ASSERT_FALSE(results.has_value());
  EXPECT_NE(results.error().message.find("results file"), std::string::npos);
}

}  // namespace
}  // namespace inkstone::eval
