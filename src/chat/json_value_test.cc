// SPDX-License-Identifier: Apache-2.0
#include "chat/json_value.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace inkstone::chat {
namespace {

std::string canonical(std::string_view text) {
  const auto value = parse_json(text, "text");
  return value ? canonical_json(*value) : value.error().message;
}

TEST(CanonicalJson, SortsKeysByCodePointAtEveryDepth) {
  EXPECT_EQ(
      canonical(R"( { "b" : [ {"z":1, "a":2} ] , "B":null, "é":true, "z":false, "🦀":0, "\uffee":1 } )"),
      "{\"B\":null,\"b\":[{\"a\":2,\"z\":1}],\"z\":false,\"é\":true,\"\uffee\":1,\"🦀\":0}");
}

TEST(CanonicalJson, EscapesOnlyWhatItMust) {
  EXPECT_EQ(canonical(R"("\"\\\/\b\f\n\r\t\u0000\u001F\u007f<>é\ud83e\udd80")"),
            "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f<>é🦀\"");
}

TEST(CanonicalJson, LetsTheLastOfRepeatedKeysWin) {
  EXPECT_EQ(canonical(R"({"a":1,"b":2,"a":3,"a":{"c":1,"c":2}})"), R"({"a":{"c":2},"b":2})");
  EXPECT_EQ(ordered_json(*parse_json(R"({"b":1,"a":2,"b":3})", "")), R"({"b":3,"a":2})");
}

TEST(CanonicalJson, PrintsNumbersAsTheVendorDoes) {
  const std::vector<std::pair<std::string, std::string>> numbers = {
      {"1.0", "1.0"},
      {"1e+20", "1e20"},
      {"1.5e-07", "1.5e-7"},
      {"1e-05", "0.00001"},
      {"1E2", "100.0"},
      {"0.0", "0.0"},
      {"0e5", "0.0"},
      {"-0.0", "-0.0"},
      {"9e-6", "9e-6"},
      {"-0", "-0.0"},
      {"0", "0"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e16"},
      {"12345678901234567890", "12345678901234567890"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"0.1", "0.1"},
      {"2.50", "2.5"},
      {"-1.25e-10", "-1.25e-10"},
      {"1234567890123456.5", "1234567890123456.5"},
      {"1.7976931348623157e308", "1.7976931348623157e308"},
      {"5e-324", "5e-324"},
      {"123.456e3", "123456.0"},
      {"0.000012345", "0.000012345"}};
  for (const auto& [given, printed] : numbers) EXPECT_EQ(canonical(given), printed) << given;
}

TEST(CanonicalJson, PrintsFloatsThatReadBackEqual) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20000; ++round) {
    const std::uint64_t bits = random();
    double value = 0;
    static_assert(sizeof value == sizeof bits);
    __builtin_memcpy(&value, &bits, sizeof value);
    if (!(value - value == 0)) continue;  // infinite or NaN
    ASSERT_EQ(std::strtod(shortest_float(value).c_str(), nullptr), value) << shortest_float(value);
  }
}

TEST(ParseJson, RefusesOverflowAndDepth) {
  EXPECT_FALSE(parse_json("1e400", "x").has_value());
  EXPECT_FALSE(parse_json("[-1e400]", "x").has_value());
  EXPECT_FALSE(parse_json("NaN", "x").has_value());
  EXPECT_FALSE(parse_json("Infinity", "x").has_value());
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(kMaxJsonDepth), "x").has_value());
  EXPECT_EQ(parse_json(nested(kMaxJsonDepth + 1), "x").error().message, "x: nested deeper than 256 levels");
}

}  // namespace
}  // namespace inkstone::chat
