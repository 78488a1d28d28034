// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/real_tokenizer.h"
#include "text/tokenizer.h"

namespace inkstone::text {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json mini_json() { return json::parse(test_support::read_source_file("models/inkling-mini/tokenizer.json")); }

std::string error_of(const json& tokenizer) {
  const auto parsed = parse_tokenizer_json(tokenizer.dump());
  return parsed ? "no error" : parsed.error().message;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t word = 0;
    for (std::size_t idx = 0; idx < 3; ++idx) {
      word = word << 8 | (at + idx < bytes.size() ? static_cast<std::uint8_t>(bytes[at + idx]) : 0U);
    }
    for (std::size_t idx = 0; idx < 4; ++idx) {
      out.push_back(at + idx > bytes.size() ? '=' : kAlphabet[word >> (18 - 6 * idx) & 63]);
    }
  }
  return out;
}

std::string rank_lines(const std::vector<TokenEntry>& entries) {
  std::string text;
  for (const TokenEntry& entry : entries) text += fmt::format("{} {}\n", base64(entry.bytes), entry.id);
  return text;
}

TEST(TokenizerJson, UndoesTheByteAlphabet) {
  const auto vocabulary = parse_tokenizer_json(mini_json().dump());
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->ordinary.size(), 2000U);
  EXPECT_EQ(vocabulary->special.size(), 40U);
  const Tokenizer tokenizer = *Tokenizer::from_vocabulary(*vocabulary);
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_TRUE(tokenizer.ordinary_id(std::string(1, static_cast<char>(byte))));
}

TEST(TokenizerJson, KeepsATokenOfBothListsOutOfTheOrdinaryOnes) {
  json tokenizer = mini_json();
  tokenizer["model"]["vocab"]["<|end_message|>"] = 2014;
  tokenizer["model"]["vocab"]["日本"] = 2039;  // no byte string, but special
  const auto vocabulary = parse_tokenizer_json(tokenizer.dump());
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->ordinary.size(), 2000U);
}

TEST(TokenizerJson, RefusesWhatIsNoVocabulary) {
  EXPECT_THAT(parse_tokenizer_json("{").error().message, HasSubstr("tokenizer.json"));
  EXPECT_THAT(parse_tokenizer_json("[]").error().message, HasSubstr("model.vocab is missing"));
  json tokenizer = mini_json();
  tokenizer["model"]["vocab"]["he"] = 258;
  EXPECT_THAT(error_of(tokenizer), HasSubstr("token id 258 is given twice"));
  tokenizer = mini_json();
  tokenizer["model"]["vocab"]["he"] = "257";
  EXPECT_THAT(error_of(tokenizer), HasSubstr("'he' is not an integer"));
  tokenizer = mini_json();
  tokenizer["model"]["vocab"]["he"] = -3;
  EXPECT_THAT(error_of(tokenizer), HasSubstr("no id in [0,"));
  tokenizer = mini_json();
  tokenizer["model"]["vocab"]["h語"] = 2100;
  EXPECT_THAT(error_of(tokenizer), HasSubstr("'h語' holds characters that stand for no byte"));
  tokenizer = mini_json();
  tokenizer["model"]["vocab"].erase("!");
  EXPECT_THAT(error_of(tokenizer), HasSubstr("no token for the single byte 0x21"));
  tokenizer = mini_json();
  tokenizer["added_tokens"][0].erase("id");
  EXPECT_THAT(error_of(tokenizer), HasSubstr("no id in [0,"));
  EXPECT_FALSE(parse_tokenizer_json(std::string(100000, '[')).has_value());
}

TEST(RankFile, RoutesSpecialLinesOutOfTheMergeTable) {
  const std::string plain = test_support::read_source_file("tests/data/tokenizer/o200k_base.tiktoken");
  const std::string with_specials = plain + rank_lines(test_support::released_specials());
  const auto vocabulary = parse_tiktoken(with_specials);
  ASSERT_TRUE(vocabulary.has_value()) << vocabulary.error().message;
  EXPECT_EQ(vocabulary->ordinary.size(), 199998U);
  EXPECT_EQ(vocabulary->special.size(), 60U);
  EXPECT_EQ(vocabulary->special[2].bytes, "<|message_user|>");
  const auto longest = std::max_element(
      vocabulary->ordinary.begin(), vocabulary->ordinary.end(),
      [](const TokenEntry& a, const TokenEntry& b) { return a.bytes.size() < b.bytes.size(); });
  EXPECT_EQ(longest->id, 72056);
  EXPECT_EQ(longest->bytes.size(), 128U);
}

TEST(RankFile, NamesTheBadLine) {
  EXPECT_THAT(parse_tiktoken("IQ== 0\nIg==1\n").error().message, HasSubstr("line 2"));
  EXPECT_THAT(parse_tiktoken("IQ== 0\nI*== 1\n").error().message, HasSubstr("line 2"));
  EXPECT_THAT(parse_tiktoken("IQ== 0\nIg== 1x\n").error().message, HasSubstr("line 2"));
  EXPECT_THAT(parse_tiktoken("IQ== 0\nIg== 0\n").error().message, HasSubstr("token id 0 is given twice"));
  EXPECT_THAT(parse_tiktoken("IQ== 0\nIQ== 1\n").error().message, HasSubstr("repeats the bytes"));
  EXPECT_THAT(parse_tiktoken("").error().message, HasSubstr("single byte 0x00"));
}

TEST(Checkpoint, MayHoldARankFileInPlaceOfJson) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "rank_file_checkpoint";
  std::filesystem::create_directories(folder / "tiktoken");
  const auto mini = parse_tokenizer_json(mini_json().dump());
  std::ofstream(folder / "tiktoken" / "tokenizer.model") << rank_lines(mini->ordinary);
  json config;
  for (const TokenEntry& entry : mini->special) {
    config["added_tokens_decoder"][std::to_string(entry.id)] = {{"content", entry.bytes}};
  }
  std::ofstream(folder / "tokenizer_config.json") << config.dump();
  const auto tokenizer = Tokenizer::load(folder);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const std::string text = "One day Ben went to the market.";
  EXPECT_EQ(tokenizer->encode_ordinary(text), test_support::mini_tokenizer().encode_ordinary(text));
  EXPECT_EQ(tokenizer->special_id("<|end_message|>"), 2014);
  std::filesystem::remove_all(folder);
}

TEST(Checkpoint, WithoutTokenizerIsRefusedByName) {
  const auto tokenizer = Tokenizer::load("/nonexistent/checkpoint");
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(tokenizer.error().message, HasSubstr("/nonexistent/checkpoint"));
}

}  // namespace
}  // namespace inkstone::text
