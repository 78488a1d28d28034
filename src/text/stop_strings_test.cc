// SPDX-License-Identifier: Apache-2.0
#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

namespace inkstone::text {
namespace {

using Strings = std::vector<std::string>;

struct Outcome {
  std::string shown;
  std::string matched;  // empty: no stop
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome feed(StopStrings& stops, const Strings& pieces) {
  Outcome outcome;
  for (const std::string& piece : pieces) outcome.shown += stops.push(piece);
  outcome.shown += stops.end_block();
  if (stops.stopped()) outcome.matched = stops.matched();
  return outcome;
}

Outcome feed(const Strings& stops, const Strings& pieces) {
  StopStrings matcher(stops);
  return feed(matcher, pieces);
}

// The rule written down naively: the first end wins, then the earliest start.
Outcome brute_force(const Strings& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::string* best = nullptr;
    for (const std::string& stop : stops) {
      const bool ends_here = end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (ends_here && (best == nullptr || stop.size() > best->size())) best = &stop;
    }
    if (best != nullptr) return {text.substr(0, end - best->size()), *best};
  }
  return {text, ""};
}

TEST(StopStrings, PassesEverythingWithoutStops) {
  StopStrings stops;
  EXPECT_EQ(stops.push("abc"), "abc");
  EXPECT_EQ(stops.end_block(), "");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStrings, CutsInsideAPieceAndSwallowsTheRest) {
  EXPECT_EQ(feed(Strings{"END"}, {"one END two", " three"}), (Outcome{"one ", "END"}));
}

TEST(StopStrings, FindsAMatchThatBeginsInAnEarlierPiece) {
  EXPECT_EQ(feed(Strings{"END"}, {"oneE", "N", "Dtwo"}), (Outcome{"one", "END"}));
}

TEST(StopStrings, HoldsBackOnlyWhatMayBeginAStop) {
  StopStrings stops({"\n\nQ:"});
  EXPECT_EQ(stops.push("a\n"), "a");
  EXPECT_EQ(stops.held_bytes(), 1U);
  EXPECT_EQ(stops.push("\n\n"), "\n");
  EXPECT_EQ(stops.push("b"), "\n\nb");
  EXPECT_EQ(stops.push("\n\nQ"), "");
  EXPECT_EQ(stops.end_block(), "\n\nQ");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStrings, NeverMatchesAcrossTwoBlocks) {
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("EN"), "");
  EXPECT_EQ(stops.end_block(), "EN");
  EXPECT_EQ(stops.push("D"), "D");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStrings, KeepsTheMatchWhenAsked) {
  StopStrings stops({"END"}, true);
  EXPECT_EQ(feed(stops, {"one E", "ND two"}), (Outcome{"one END", "END"}));
}

TEST(StopStrings, TakesTheEarliestStartAmongMatchesThatEndTogether) {
  EXPECT_EQ(feed(Strings{"b", "aab"}, {"xaab"}), (Outcome{"x", "aab"}));
}

TEST(StopStrings, StopsAtTheFirstCompletedMatchHoweverThePiecesAreCut) {
  EXPECT_EQ(feed(Strings{"bcdXX", "cd"}, {"abcdXX"}), (Outcome{"ab", "cd"}));
  EXPECT_EQ(feed(Strings{"bcdXX", "cd"}, {"a", "b", "c", "d", "X", "X"}), (Outcome{"ab", "cd"}));
}

TEST(StopStrings, ReleasesWholeCharacters) {
  StopStrings stops({"é!"});
  EXPECT_EQ(stops.push("aé"), "a");
  EXPECT_EQ(stops.push("è"), "éè");
}

TEST(StopStrings, EqualsTheNaiveRuleOnRandomTextAtRandomCuts) {
  std::mt19937 random(7);
  const auto word = [&](std::size_t length) {
    std::string text(length, 'a');
    for (char& byte : text) byte = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    Strings stops;
    for (auto n = 1 + random() % 3; n > 0; --n) stops.push_back(word(3 + random() % 6));
    const std::string text = word(random() % 60);
    Strings pieces;
    for (std::size_t at = 0; at < text.size(); at += pieces.back().size())
      pieces.push_back(text.substr(at, 1 + random() % 5));
    EXPECT_EQ(feed(stops, pieces), brute_force(stops, text)) << text;
  }
}

TEST(StopStrings, RefusesEmptyStringsAndTooMany) {
  EXPECT_FALSE(validate_stop_strings(Strings{"a", ""}));
  EXPECT_FALSE(validate_stop_strings(Strings(kMaxStopStrings + 1, "a")));
  EXPECT_TRUE(validate_stop_strings(Strings{"a", "b"}));
  EXPECT_TRUE(validate_stop_strings({}));
}

}  // namespace
}  // namespace inkstone::text
