// SPDX-License-Identifier: Apache-2.0
#include "app/input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/console.h"

namespace inkstone::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ids_error(std::string_view text) {
  const auto ids = parse_ids(text, "--ids");
  return ids ? "no error" : ids.error().message;
}

TEST(ParseIds, TakesListsAsPeopleAndProgramsWriteThem) {
  for (const char* text : {"1,2,3", "1 2\n3\n", " 1, 2,\t3", "[1, 2, 3]", R"({"text":"x","ids":[1,2,3]})"})
    EXPECT_THAT(parse_ids(text, "--ids").value(), ElementsAre(1, 2, 3)) << text;
}

TEST(ParseIds, NamesWhatIsNoId) {
  EXPECT_EQ(ids_error("1,x2"), "--ids: 'x2' is not a token id");
  EXPECT_EQ(ids_error("1,-2"), "--ids: '-2' is not a token id");
  EXPECT_EQ(ids_error("1.5"), "--ids: '1.5' is not a token id");
  EXPECT_EQ(ids_error("9223372036854775808"), "--ids: '9223372036854775808' is not a token id");
  EXPECT_EQ(ids_error("2147483648"), "--ids: '2147483648' is not a token id");
  EXPECT_EQ(ids_error("[1, \"a\"]"), "--ids: '\"a\"' is not a token id");
  EXPECT_EQ(ids_error("[1, [2]]"), "--ids: 'a list' is not a token id");
  EXPECT_EQ(ids_error("[18446744073709551615]"), "--ids: '18446744073709551615' is not a token id");
}

TEST(ParseIds, RefusesWhatHoldsNoIds) {
  EXPECT_EQ(ids_error(""), "--ids: there are no ids");
  EXPECT_EQ(ids_error(" ,\n"), "--ids: there are no ids");
  EXPECT_EQ(ids_error("[]"), "--ids: there are no ids");
  EXPECT_THAT(ids_error("{\"id\":[1]}"), HasSubstr("neither a list of ids"));
  EXPECT_THAT(ids_error("[1,2"), HasSubstr("neither a list of ids"));
}

TEST(ParseIds, CutsLongQuotations) { EXPECT_LT(ids_error(std::string(100000, 'a')).size(), 100U); }

TEST(ParseInteger, StatesTheRange) {
  EXPECT_EQ(parse_integer("7", {1, 9}, "--x").value(), 7);
  EXPECT_EQ(parse_integer("0", {1, 9}, "--x").error().message,
            "--x must be a whole number from 1 to 9, not '0'");
  EXPECT_EQ(parse_integer("1.5", {1}, "--x").error().message,
            "--x must be a whole number of at least 1, not '1.5'");
  EXPECT_FALSE(parse_integer("9223372036854775808", {1}, "--x"));
  EXPECT_FALSE(parse_integer("", {1}, "--x"));
}

TEST(ParseNumber, TakesFiniteNumbersOnly) {
  EXPECT_EQ(parse_number("0.5", "--x").value(), 0.5);
  for (const char* text : {"nan", "NaN", "inf", "-inf", "1e999", "0.5x", ""})
    EXPECT_FALSE(parse_number(text, "--x")) << text;
}

TEST(SpellBytes, KeepsThreeDigits) {
  EXPECT_EQ(spell_bytes(999), "999 B");
  EXPECT_EQ(spell_bytes(1000), "1.00 kB");
  EXPECT_EQ(spell_bytes(16234567), "16.2 MB");
  EXPECT_EQ(spell_bytes(999999), "1.00 MB");
  EXPECT_EQ(spell_bytes(592005369312), "592 GB");
}

TEST(ExitCode, TellsMistakesOfTheUserFromFailures) {
  EXPECT_EQ(exit_code({ErrorKind::kInvalidArgument, ""}), 2);
  EXPECT_EQ(exit_code({ErrorKind::kCorrupt, ""}), 2);
  EXPECT_EQ(exit_code({ErrorKind::kIo, ""}), 1);
  EXPECT_EQ(exit_code({ErrorKind::kFailed, ""}), 1);
}

}  // namespace
}  // namespace inkstone::app
