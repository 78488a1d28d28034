// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <gtest/gtest.h>

namespace inkstone {
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

TEST(Base64, BreaksOfLinesAreNoContent) {
  EXPECT_EQ(decode_base64("Zm9v\r\nYm\nFy\n").value_or("?"), "foobar");
  EXPECT_EQ(decode_base64("Zm9vYg").value_or("?"), "foob");
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* bad : {"A", "Zm9v!", "Zm=9", "Zm9v====", "Zg=", "Zm-_"})
    EXPECT_FALSE(decode_base64(bad).has_value()) << bad;
}

}  // namespace
}  // namespace inkstone
