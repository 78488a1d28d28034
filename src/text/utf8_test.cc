// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace inkstone::text {
namespace {

TEST(Utf8, AcceptsTheBordersOfEveryLength) {
  for (const std::uint32_t code_point :
       {0x0U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xD7FFU, 0xE000U, 0xFFFFU, 0x10000U, 0x10FFFFU}) {
    std::string bytes;
    append_utf8(code_point, bytes);
    const Utf8Step step = decode_utf8(bytes);
    EXPECT_EQ(step.kind, Utf8Step::Kind::kComplete);
    EXPECT_EQ(step.code_point, code_point);
    EXPECT_EQ(step.num_bytes, static_cast<int>(bytes.size()));
  }
}

TEST(Utf8, NamesTheFirstBadByte) {
  EXPECT_TRUE(validate_utf8("naïve 🦀", "--prompt").has_value());
  const Status status = validate_utf8("0123456789abc\xC0\xAF", "--prompt");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, "--prompt is not valid UTF-8: byte 0xc0 at offset 13");
  EXPECT_FALSE(is_valid_utf8("ends in the middle \xF0\x9F"));
}

TEST(Utf8, ReplacesEachMaximalInvalidSubpartOnce) {
  EXPECT_EQ(replace_invalid_utf8("a\xF1\x80\x80\xE1\x80\xC2z\x80\xBF"), "a\ufffd\ufffd\ufffdz\ufffd\ufffd");
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xF5"), "\ufffd\ufffd\ufffd");  // overlong form, too large
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\ufffd\ufffd\ufffd");  // surrogate
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");  // above U+10FFFF
}

TEST(Utf8Stream, GivesTheSameTextWhereverTheBytesAreCut) {
  std::mt19937 random(3);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (int idx = 0; idx < 12; ++idx) {
      const std::string_view samples[] = {"a",    "\u00e9", "\u3042",   "🦀", "\xF0\x9F",
                                          "\x80", "\xE3",   "\xED\xA0", "\xFF"};
      bytes += samples[random() % std::size(samples)];
    }
    std::string text;
    Utf8Stream stream;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = std::min<std::size_t>(1 + random() % 4, bytes.size() - at);
      stream.push(std::string_view(bytes).substr(at, size), text);
      EXPECT_TRUE(is_valid_utf8(text));
      at += size;
    }
    stream.flush(text);
    ASSERT_EQ(text, replace_invalid_utf8(bytes));
  }
}

}  // namespace
}  // namespace inkstone::text
