// SPDX-License-Identifier: Apache-2.0
#include "eval/needle.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "chat/request_parser.h"

namespace inkstone::eval {
namespace {

class Needles : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer = text::Tokenizer::load(INKSTONE_SOURCE_DIR "/models/inkling-mini");
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    tokenizer_.emplace(std::move(*tokenizer));
    tokens_ = *text::resolve_special_tokens(*tokenizer_);
    maker_.emplace(*tokenizer_, tokens_);
  }

  // As a run encodes it: from the JSON.
  std::int64_t prompt_tokens(const nlohmann::ordered_json& item) const {
    const auto request = chat::parse_chat_request(item["request"].dump());
    const auto prompt = chat::PromptEncoder(*tokenizer_, tokens_).encode(*request);
    return static_cast<std::int64_t>(prompt->ids.size());
  }
  nlohmann::ordered_json make(const NeedleTask& task) const {
    const auto line = maker_->make(task);
    EXPECT_TRUE(line.has_value()) << line.error().message;
    return nlohmann::ordered_json::parse(line.value_or("{}"));
  }
  static std::string content(const nlohmann::ordered_json& item) {
    return item["request"]["messages"][0]["content"];
  }

  std::optional<text::Tokenizer> tokenizer_;
  text::SpecialTokens tokens_;
  std::optional<NeedleMaker> maker_;
};

TEST_F(Needles, HaveExactlyTheLengthThatWasAskedFor) {
  for (const std::int64_t length : {100, 101, 102, 103, 1000, 1024, 4097, 20000})
    for (const std::uint64_t seed : {0, 1, 2})
      EXPECT_EQ(prompt_tokens(make({length, 0.5, seed})), length) << seed;
}

TEST_F(Needles, StandAtTheDepthThatWasAskedFor) {
  for (const double depth : {0.0, 0.25, 0.5, 1.0}) {
    const std::string text = content(make({4096, depth, 3}));
    const auto at = static_cast<double>(text.find("The secret number"));
    EXPECT_NEAR(at / static_cast<double>(text.size()), depth, 0.03) << depth;
    EXPECT_EQ(text.rfind("The secret number"), text.find("The secret number"));
  }
}

TEST_F(Needles, AreDecidedByTheirTask) {
  EXPECT_EQ(make({500, 0.5, 9}).dump(), make({500, 0.5, 9}).dump());
  std::set<std::string> answers;
  for (std::uint64_t seed = 0; seed < 8; ++seed) answers.insert(make({500, 0.5, seed})["scoring"]["answer"]);
  EXPECT_GT(answers.size(), 6U);
}

TEST_F(Needles, HoldTheirAnswerOnceAndAskForIt) {
  const nlohmann::ordered_json item = make({700, 0.25, 5});
  const std::string number = item["scoring"]["answer"];
  const std::string text = content(item);
  EXPECT_NE(text.find(" is " + number + "."), std::string::npos);
  EXPECT_EQ(text.find(number), text.rfind(number));
  EXPECT_EQ(text.back(), '?');
}

TEST_F(Needles, RefuseLengthsWithoutRoom) {
  EXPECT_FALSE(maker_->make({10, 0.5, 0}).has_value());
  EXPECT_FALSE(maker_->make({0, 0.5, 0}).has_value());
}

TEST(Lengths, AreNumbersWithUnits) {
  EXPECT_EQ(parse_length("4096").value_or(0), 4096);
  EXPECT_EQ(parse_length("4k").value_or(0), 4096);
  EXPECT_EQ(parse_length("1M").value_or(0), 1048576);
  for (const char* bad : {"", "k", "1m", "4kk", "-1", "0", "1.5k", "9999999M"})
    EXPECT_FALSE(parse_length(bad).has_value()) << bad;
}

}  // namespace
}  // namespace inkstone::eval
