// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/simulation.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

namespace inkstone::testing {
namespace {

constexpr std::int64_t kSteps = INKSTONE_SIMULATION_STEPS;  // of each run; the program is built for several

SimulationOptions tight() {
  SimulationOptions options;
  options.steps = kSteps;
  return options;
}

SimulationOptions with_drafts() {
  SimulationOptions options = tight();
  options.toy.max_drafts = 4;
  options.toy.rules.vocabulary = 3;
  return options;
}

void expect_sound(const SimulationResult& result) {
  EXPECT_EQ(result.fault, "");
  EXPECT_GT(result.answers, 0);
  EXPECT_GT(result.cached_tokens, 0);
  EXPECT_GT(result.cancelled, 0);
}

TEST(Simulation, AnswersAreThoseOfEachRequestAlone) {
  const SimulationResult result = simulate(tight());
  expect_sound(result);
  EXPECT_GT(result.swaps, 0);
}

TEST(Simulation, RejectedDraftsLeaveNoTrace) {
  const SimulationResult result = simulate(with_drafts());
  expect_sound(result);
  EXPECT_GT(result.accepted_drafts, 0);
  EXPECT_GT(result.rejected_drafts, 0);
}

TEST(Simulation, PreemptionWithoutHostMemoryRecomputes) {
  SimulationOptions options = tight();
  options.host_windows = 0;
  options.host_pages = 0;
  const SimulationResult result = simulate(options);
  EXPECT_EQ(result.fault, "");
  EXPECT_GT(result.recomputes, 0);
  EXPECT_EQ(result.swaps, 0);
}

TEST(Simulation, ChunksOfOneAndFiveTokensAreAsGoodAsAny) {
  for (const std::int64_t chunk : {1, 5}) {
    SimulationOptions options = tight();
    options.steps /= 4;
    options.max_chunk_tokens = chunk;
    options.seed = static_cast<std::uint32_t>(chunk);
    EXPECT_EQ(simulate(options).fault, "") << chunk;
  }
}

#if INKSTONE_SIMULATION_CONTROLS
// --- broken controls: the run must notice, by a fault or by dying of a check ---

bool noticed(const SimulationOptions& options) {
  const pid_t child = fork();
  if (child == 0) {
    // What dies here says so on stderr; that is expected and of no interest.
    if (std::freopen("/dev/null", "w", stderr) == nullptr) std::_Exit(0);
    std::_Exit(simulate(options).fault.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(SimulationControls, APagePublishedWithAnUnverifiedTokenIsNoticed) {
  SimulationOptions options = with_drafts();
  options.steps = 20000;
  options.publish_unverified = true;
  EXPECT_TRUE(noticed(options));
}

TEST(SimulationControls, ARingOneRowShortIsNoticed) {
  for (const std::int64_t group : {2, 3, 4, 5, 7}) {
    SimulationOptions options = tight();
    options.toy.short_ring_group = group;
    EXPECT_TRUE(noticed(options)) << group;
  }
}

TEST(SimulationControls, ARingWithoutRoomForTheDraftsIsNoticed) {
  SimulationOptions options = with_drafts();
  model::StateGroup& sliding = options.toy.spec.groups[2];
  sliding.ring_rows = sliding.window - 1 + options.toy.max_drafts - 1;
  EXPECT_TRUE(noticed(options));
}

TEST(SimulationControls, AWindowDeclaredOneRowShortIsNoticed) {
  for (const std::size_t group : {std::size_t{2}, std::size_t{3}, std::size_t{4}}) {
    SimulationOptions options = tight();
    options.steps = 20000;
    --options.toy.spec.groups[group].window;
    EXPECT_TRUE(noticed(options)) << options.toy.spec.groups[group].name;
  }
}

TEST(SimulationControls, AnyGroupLeftOutOfARestoreIsNoticed) {
  for (std::size_t group = 0; group < toy_spec().groups.size(); ++group) {
    SimulationOptions options = tight();
    options.toy.forgotten_group = static_cast<std::int64_t>(group);
    EXPECT_TRUE(noticed(options)) << toy_spec().groups[group].name;
  }
}

TEST(SimulationControls, AReferenceTakenAfterTheAllocationIsNoticed) {
  SimulationOptions options = tight();
  options.steps = 20000;
  options.reference_late = true;
  EXPECT_TRUE(noticed(options));
}

TEST(SimulationControls, TheSameRunsWithoutAFaultPass) { EXPECT_FALSE(noticed(tight())); }
#endif

}  // namespace
}  // namespace inkstone::testing
