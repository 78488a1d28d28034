// SPDX-License-Identifier: Apache-2.0
// bench/engine/engine_bench.h - what the loop costs by itself: a stub model that computes nothing, many
// sequences of long prompts that share most of their prefix.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"

namespace inkstone::bench {

struct EngineBenchOptions {
  std::vector<std::int64_t> sequences = {1, 32, 256};
  std::vector<std::int64_t> context_tokens = {4096, 32768, 131072};
  double prefix_hit = 0.9;    // share of each prompt that all have in common
  std::int64_t steps = 2000;  // timed, after the warm-up
  std::int64_t warmup_steps = 200;
  // Number of allocations of the process so far; the program that links this counts them. Empty: not counted.
  std::function<std::int64_t()> allocations;
};

struct EngineBenchRow {
  std::int64_t sequences = 0;
  std::int64_t context_tokens = 0;
  double cached_share = 0;  // of all prompt tokens but the first request's, as the engine reported it
  double us_per_step = 0;   // of the whole loop: scheduler, cache, batch, results
  double us_per_step_p50 = 0;
  double us_per_step_p99 = 0;
  double steps_per_second = 0;
  double tokens_per_second = 0;
  double us_per_admission = 0;   // until all prompts are computed, by prompt
  std::int64_t allocations = 0;  // in the timed steps
};

// One row for each number of sequences and length of context. Fails when the loop does.
Result<std::vector<EngineBenchRow>> bench_engine(const EngineBenchOptions& options);

}  // namespace inkstone::bench
