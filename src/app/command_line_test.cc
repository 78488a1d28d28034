// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace inkstone::app {
namespace {

using testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome run_words(std::vector<const char*> words) {
  words.insert(words.begin(), "inkstone");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run(static_cast<int>(words.size()), words.data());
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.err = testing::internal::GetCapturedStderr();
  return outcome;
}

// Exit code 2, one line on standard error that holds `text`, nothing on standard output.
void expect_refusal(const std::vector<const char*>& words, const std::string& text) {
  const Outcome outcome = run_words(words);
  EXPECT_EQ(outcome.code, 2) << text;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr(text));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

TEST(CommandLine, ShowsHelpAndVersion) {
  EXPECT_THAT(run_words({"--help"}).out, HasSubstr("tokenize"));
  EXPECT_THAT(run_words({"--version"}).out, HasSubstr("inkstone "));
  EXPECT_EQ(run_words({"logits", "--help"}).code, 0);
}

TEST(CommandLine, RefusesWhatItDoesNotKnow) {
  expect_refusal({}, "subcommand");
  expect_refusal({"brew"}, "brew");
  expect_refusal({"tokenize", "--colour"}, "--colour");
  expect_refusal({"tokenize", "a", "b"}, "b");
  expect_refusal({"logits", "--out", "x"}, "--ids-file");
}

TEST(CommandLine, NamesTheOptionWhoseNumberIsWrong) {
  expect_refusal({"doctor", "--threads", "0"}, "--threads must be a whole number from 1 to");
  expect_refusal({"doctor", "--threads", "two"}, "'two'");
  expect_refusal({"logits", "--ids-file", "x", "--out", "y", "--last", "-1"}, "--last must be");
}

TEST(CommandLine, RefusesWhatDoesNotExistYetWithTheReason) {
  expect_refusal({"doctor", "--tensor-parallel", "2"},
                 "--tensor-parallel: this version computes on one rank only");
  EXPECT_THAT(run_words({"doctor", "--help"}).out, testing::Not(HasSubstr("tensor-parallel")));
}

TEST(CommandLine, TellsAnEmptyTextFromNone) {
  const Outcome outcome = run_words({"tokenize", "", "--json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "{\"ids\":[]}\n");
}

TEST(CommandLine, KeepsBracketsAndBracesInTexts) {
  const Outcome outcome = run_words({"detokenize", "[72,105]"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, run_words({"detokenize", "72,105"}).out);
}

}  // namespace
}  // namespace inkstone::app
