// SPDX-License-Identifier: Apache-2.0
#include "text/special_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/real_tokenizer.h"

namespace inkstone::text {
namespace {

using testing::HasSubstr;
using testing::Not;

Tokenizer with_specials(const std::function<bool(const std::string&)>& keep, std::int32_t first_id = 5000) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.ordinary.push_back({std::string(1, static_cast<char>(byte)), byte});
  for (const TokenEntry& entry : test_support::released_specials()) {
    if (keep(entry.bytes)) vocabulary.special.push_back({entry.bytes, first_id++});
  }
  return *Tokenizer::from_vocabulary(vocabulary);
}

TEST(SpecialTokens, AreResolvedBySpelling) {
  EXPECT_EQ(test_support::real_special_tokens().content_tool_list, 200024);
  EXPECT_EQ(test_support::real_special_tokens().end_of_text, 199999);
  EXPECT_EQ(test_support::mini_special_tokens().end_sampling, 2007);
  EXPECT_EQ(test_support::mini_special_tokens().image_slot, 2017);
}

TEST(SpecialTokens, AcceptTheOlderSpellingOfTheToolList) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.ordinary.push_back({std::string(1, static_cast<char>(byte)), byte});
  for (TokenEntry entry : test_support::released_specials()) {
    if (entry.id == 200024) entry.bytes = "<|unused_200024|>";
    vocabulary.special.push_back(entry);
  }
  const auto tokens = resolve_special_tokens(*Tokenizer::from_vocabulary(vocabulary));
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(tokens->content_tool_list, 200024);
}

TEST(SpecialTokens, NameEveryMissingOne) {
  const auto keep = [](const std::string& s) { return s != "<|end_message|>" && s != "<|content_xml|>"; };
  const auto tokens = resolve_special_tokens(with_specials(keep));
  ASSERT_FALSE(tokens.has_value());
  EXPECT_THAT(tokens.error().message, HasSubstr("<|end_message|>"));
  EXPECT_THAT(tokens.error().message, HasSubstr("<|content_xml|>"));
  EXPECT_THAT(tokens.error().message, Not(HasSubstr("<|content_text|>")));
}

TEST(SpecialTokens, MayLackTheThreeOutputOnlyOnes) {
  const auto keep = [](const std::string& s) {
    return s != "<|endoftext|>" && s != "<|content_tool_error|>" && s != "<|content_invoke_tool_text|>";
  };
  const auto tokens = resolve_special_tokens(with_specials(keep));
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(tokens->end_of_text, SpecialTokens::kAbsent);
}

TEST(SpecialTokens, DoNotCountOrdinarySpellings) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.ordinary.push_back({std::string(1, static_cast<char>(byte)), byte});
  for (const TokenEntry& entry : test_support::released_specials()) vocabulary.ordinary.push_back(entry);
  EXPECT_FALSE(resolve_special_tokens(*Tokenizer::from_vocabulary(vocabulary)).has_value());
}

}  // namespace
}  // namespace inkstone::text
