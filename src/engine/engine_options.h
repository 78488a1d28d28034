// SPDX-License-Identifier: Apache-2.0
// engine/engine_options.h - how much of everything an engine has.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cache/cache_manager.h"
#include "scheduler/step_plan.h"
#include "speculative/head_rows.h"

namespace inkstone::engine {

enum class DrafterKind : std::uint8_t {
  kHeads,   // the checkpoint's MTP heads
  kLookup,  // what followed the last words when they stood in the sequence before
};

// Monotonic; from any start.
double steady_clock_us();

struct EngineOptions {
  std::int64_t max_context_tokens = 0;  // of one sequence; at most the model's
  std::int64_t max_sequences = 8;       // running at a time
  std::int64_t cache_tokens = 0;        // in pages on the device, all sequences together; 0: one full context
  std::int64_t spare_slots = 2;         // for the windows of finished sequences, beside the running ones
  std::int64_t checkpoint_bytes = std::int64_t{256} << 20;  // host memory for windows and their page rows
  std::int64_t swap_bytes = std::int64_t{256} << 20;        // host memory for pages of preempted sequences
  std::int64_t token_budget = 2048;                         // rows of one step
  std::int64_t max_chunk_tokens = 2048;                     // of one prompt in one step
  std::int64_t answer_reserve_tokens = 256;
  std::int64_t checkpoint_interval_tokens = 8192;  // of long prompts
  std::int64_t encoder_rows = 256;  // of pictures and sounds that towers compute between two steps
  std::int64_t encoder_cache_bytes = std::int64_t{256} << 20;  // of vectors that no request holds any more
  std::int64_t draft_rows = 0;  // drafts of a sequence per step, at most; 0: plain decoding
  DrafterKind drafter = DrafterKind::kHeads;
  bool adaptive_depth = false;                         // as many drafts as pay, at most draft_rows
  std::function<double()> clock_us = steady_clock_us;  // what pays is measured with it
  speculative::DraftOverride draft_override;           // of tests
  bool reuse_prefixes = true;
  bool nvfp4_activations = false;  // inputs of NVFP4 experts rounded to NVFP4 (`checkpoint.md` 5.4)
  bool record_steps = true;        // decode steps as graphs, where the backend records
  // Where drafts are enqueued with the step that verifies those before: as two recordings, so that each is
  // timed and the host need not wait for both. `auto` always has it so.
  bool split_rounds = false;
  bool integrity_checks = false;  // counts all references and poisons what is freed, each step
  std::string layout;             // everything that decides the bits of a state row: number types, version

  // Heads that keep state.
  [[nodiscard]] std::int64_t head_depths() const { return drafter == DrafterKind::kHeads ? draft_rows : 0; }
  [[nodiscard]] scheduler::Limits scheduling() const {
    return {token_budget, max_chunk_tokens, answer_reserve_tokens};
  }
};

// `--speculate` and `--drafter` as the user wrote them, into `options`. `depth`: "0" to "8", or "auto";
// `drafter`: "heads" or "lookup". More heads than the checkpoint has are refused with both numbers; "auto"
// takes those there are.
Status set_speculation(std::string_view depth, std::string_view drafter, std::int64_t num_heads,
                       EngineOptions& options);

// Numbers of pages, slots and host blocks that the options buy for rows of this specification.
cache::CacheLimits cache_limits(const model::StateSpec& spec, const EngineOptions& options);

}  // namespace inkstone::engine
