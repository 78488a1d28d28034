// SPDX-License-Identifier: Apache-2.0
#include "eval/base64.h"

#include <gtest/gtest.h>

namespace inkstone::eval {
namespace {

TEST(Base64, MeetsTheExamplesOfItsStandard) {
  for (const auto& [bytes, text] :
       {std::pair{"", ""}, std::pair{"f", "Zg=="}, std::pair{"fo", "Zm8="}, std::pair{"foo", "Zm9v"},
        std::pair{"foob", "Zm9vYg=="}, std::pair{"fooba", "Zm9vYmE="}, std::pair{"foobar", "Zm9vYmFy"}}) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text).value_or("?"), bytes);
  }
}

TEST(Base64, GivesBackEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(decode_base64(encode_base64(bytes)).value_or("?"), bytes);
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* bad : {"A", "Zm9v!", "Zm 9", "Zm=9"}) EXPECT_FALSE(decode_base64(bad).has_value()) << bad;
}

}  // namespace
}  // namespace inkstone::eval
