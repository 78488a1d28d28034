// SPDX-License-Identifier: Apache-2.0
// tests/scenario/simulation.h - random clients against the loop with the toy model: forks of earlier prompts,
// cancels, more work than there is memory. Every answer is compared with the oracle's.
#pragma once

#include <string>

#include "tests/support/toy_model.h"

namespace inkstone::testing {

struct SimulationOptions {
  std::int64_t steps = 1000;
  std::uint32_t seed = 1;
  std::int64_t pages = 10;
  std::int64_t sequences = 4;
  std::int64_t host_windows = 4;
  std::int64_t host_pages = 16;
  std::int64_t token_budget = 96;
  std::int64_t max_chunk_tokens = 96;
  std::int64_t clients = 10;
  ToyRunner::Options toy;
  // Broken controls that reach into the cache's rules.
  bool publish_unverified = false;
  bool reference_late = false;
};

struct SimulationResult {
  std::string fault;  // empty: everything was as it must be
  std::int64_t answers = 0;
  std::int64_t cancelled = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t swaps = 0;
  std::int64_t recomputes = 0;
  std::int64_t accepted_drafts = 0;
  std::int64_t rejected_drafts = 0;
};

// Stops at the first fault: a wrong token, a broken invariant, a leak at the end, or no progress.
SimulationResult simulate(const SimulationOptions& options);

}  // namespace inkstone::testing
