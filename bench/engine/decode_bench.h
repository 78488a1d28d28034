// SPDX-License-Identifier: Apache-2.0
// bench/engine/decode_bench.h - what drafts bring: the same answers decoded with different numbers of drafts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine_options.h"
#include "engine/model_runner.h"

namespace inkstone::bench {

struct DecodeBenchOptions {
  // A runner for these options; called once for each depth.
  std::function<Result<std::unique_ptr<engine::ModelRunner>>(const engine::EngineOptions&)> make_runner;
  engine::EngineOptions engine;  // its speculation is set by `depths`
  std::int64_t num_heads = 0;
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::int32_t> end_ids;
  std::int64_t max_tokens = 128;
  std::vector<std::string> depths = {"0", "1", "2", "3",
                                     "4", "6", "8", "auto"};  // "0" is added where missing
  std::string drafter = "heads";
  double temperature = 0;
  // Every depth answers each prompt before the next prompt, so that the machine's moods fall on all alike.
  // The first rounds are not counted: `auto` learns, as it did long ago in a server that runs.
  std::int64_t learning_rounds = 3;
  std::int64_t rounds = 15;  // those included
};

// Verify times are those of steps that only decoded; draft times are all, those behind a prompt included.
// Everything is of all counted rounds. Where verifying and drafting are one recording, they are one time:
// then `verify_us` and `draft_us` are of further rounds with a recording for each, which `timed_apart` says.
struct DecodeBenchRow {
  std::string depth;
  double tokens_per_step = 0;
  double verify_us = 0;  // per step
  double draft_us = 0;
  bool timed_apart = false;
  double us_per_token = 0;
  double gain = 0;  // speed over N = 0
  double drafted_per_step = 0;
  double acceptance = 0;  // of the drafts
};

// Fails when an answer differs from that of N = 0: no number is worth printing then.
Result<std::vector<DecodeBenchRow>> bench_decode(const DecodeBenchOptions& options);

}  // namespace inkstone::bench
