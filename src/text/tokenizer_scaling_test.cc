// SPDX-License-Identifier: Apache-2.0
// Twice the text takes about twice the time: a prompt of a megabyte must not stall the server. Slow: it
// measures time.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <string>

#include "tests/support/real_tokenizer.h"

namespace inkstone::text {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;
constexpr int kRounds = 9;
constexpr double kLargestRatio = 2.5;  // n log n gives 2.1; the square would give 4

std::string prose() {
  const std::string source =
      test_support::read_source_file("LICENSE") + test_support::read_source_file("CONTRIBUTING.md");
  std::string text;
  while (text.size() < kMegabyte) text += source;
  text.resize(kMegabyte);
  return text;
}

// Time of this thread, so that a busy machine counts less.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double seconds_to_encode(const std::string& text) {
  const double begin = thread_seconds();
  const auto ids = test_support::real_tokenizer().encode_ordinary(text);
  EXPECT_FALSE(ids.empty());
  return thread_seconds() - begin;
}

// The best of several rounds, taken in turns: a slow spell of the machine meets both.
void expect_linear(const std::string& text) {
  double half = std::numeric_limits<double>::max();
  double whole = half;
  for (int round = 0; round < kRounds; ++round) {
    half = std::min(half, seconds_to_encode(text.substr(0, text.size() / 2)));
    whole = std::min(whole, seconds_to_encode(text));
  }
  EXPECT_LE(whole, kLargestRatio * half)
      << whole * 1e3 << " ms against " << half * 1e3 << " ms for half of it";
}

TEST(TokenizerScaling, ProseTakesLinearTime) { expect_linear(prose()); }

TEST(TokenizerScaling, OneRepeatedLetterTakesLinearTime) { expect_linear(std::string(kMegabyte, 'a')); }

TEST(TokenizerScaling, OneRepeatedCapitalTakesLinearTime) { expect_linear(std::string(kMegabyte, 'A')); }

TEST(TokenizerScaling, WhitespaceTakesLinearTime) { expect_linear(std::string(kMegabyte, ' ')); }

TEST(TokenizerScaling, CombiningMarksTakeLinearTime) {
  std::string text;
  while (text.size() < kMegabyte) text += "\u0301";
  expect_linear(text);
}

TEST(TokenizerScaling, AlternatingClassesTakeLinearTime) {
  std::string text;
  while (text.size() < kMegabyte) text += "Aa1 \n!";
  expect_linear(text);
}

}  // namespace
}  // namespace inkstone::text
