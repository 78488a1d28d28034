// SPDX-License-Identifier: Apache-2.0
// Every .scn file of this folder is a test of its name.
#include "tests/scenario/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace inkstone::testing {
namespace {

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(INKSTONE_SOURCE_DIR "/tests/scenario"))
    if (entry.path().extension() == ".scn") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

class ScenarioFile : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioFile, HoldsToItsEnd) {
  EXPECT_EQ(run_scenario(INKSTONE_SOURCE_DIR "/tests/scenario/" + GetParam() + ".scn"), "");
}

INSTANTIATE_TEST_SUITE_P(Files, ScenarioFile, ::testing::ValuesIn(scenario_names()),
                         [](const auto& info) { return info.param; });

std::string run_text(const std::string& text) {
  const std::string path = ::testing::TempDir() + "inkstone_scenario_test.scn";
  std::ofstream(path) << text;
  return run_scenario(path);
}

TEST(ScenarioLanguage, NamesTheLineOfAWrongExpectation) {
  const std::string found = run_text("engine pages 8\nsubmit a text:1:10\nfinish a\nexpect a cached 3\n");
  EXPECT_NE(found.find(":4:"), std::string::npos) << found;
  EXPECT_NE(found.find("cached is 0"), std::string::npos) << found;
}

TEST(ScenarioLanguage, RefusesWhatItDoesNotKnow) {
  EXPECT_NE(run_text("engine pages 8\nsubmitt a text:1:10\n"), "");
  EXPECT_NE(run_text("engine pagess 8\n"), "");
  EXPECT_NE(run_text("engine pages 8\nexpect engine happiness 1\n"), "");
}

}  // namespace
}  // namespace inkstone::testing
