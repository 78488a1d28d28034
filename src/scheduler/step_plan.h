// SPDX-License-Identifier: Apache-2.0
// scheduler/step_plan.h - what the scheduler is told and what it answers: plain values, no owner, no device.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace inkstone::scheduler {

enum class Phase : std::uint8_t {
  kWaiting,  // holds no slot; its prefix is matched, or not yet looked at
  kRunning,  // holds a slot and pages
  kSwapped,  // its state lies in host memory
};

// One sequence as the scheduler sees it. Positions count rows of the sequence.
struct SequenceView {
  Phase phase = Phase::kWaiting;
  std::int32_t priority = 0;       // larger goes first
  std::int64_t arrival = 0;        // order of submission, kept over preemptions
  std::int64_t admission = 0;      // order of the last admission, for running ones
  std::int64_t position = 0;       // rows enqueued so far (restored ones included): the next row to feed
  std::int64_t length = 0;         // tokens known, or certain to be known when the step runs
  std::int64_t prompt_end = 0;     // rows before it are fed as prompt
  std::int64_t draft_rows = 0;     // verified beside the one row of a decode, where pages allow
  std::int64_t most_tokens = 0;    // prompt and answer at their longest
  std::int64_t next_cut = kNoCut;  // a checkpoint is wanted here: a chunk does not cross it
  std::int64_t pages_held = 0;     // or, while swapped, needed to come back
  std::int64_t pages_private = 0;  // of these, those that nobody else holds
  std::int64_t prefix_pages = 0;   // waiting: pages of the prompt that are referenced already
  static constexpr std::int64_t kNoCut = std::numeric_limits<std::int64_t>::max();

  [[nodiscard]] bool in_prompt() const { return position < prompt_end; }
};

struct Capacity {
  std::int64_t pages = 0;  // free or evictable now
  std::int64_t slots = 0;
  std::int64_t host_windows = 0;  // swapped sequences that host memory takes
  std::int64_t host_pages = 0;
};

struct Limits {
  std::int64_t token_budget = 0;      // rows of one step
  std::int64_t max_chunk_tokens = 0;  // of one prompt in one step
  std::int64_t answer_reserve_tokens =
      0;  // room for an answer that admission keeps free per running sequence
};

// Rows of one sequence in the step: [position, position + rows).
struct PlannedRows {
  std::int32_t sequence = 0;  // index into the views
  std::int64_t rows = 0;
  bool decode = false;   // step class: one known token and its drafts
  bool samples = false;  // its last row's logits give the next token
};

enum class Preemption : std::uint8_t { kSwap, kRecompute };

struct StepPlan {
  struct Preempted {
    std::int32_t sequence = 0;
    Preemption kind = Preemption::kRecompute;
  };
  // Carried out in this order.
  std::vector<Preempted> preempted;
  std::vector<std::int32_t> admitted;  // waiting and swapped ones that come to run
  std::vector<PlannedRows> rows;       // decodes first

  void clear() {
    preempted.clear();
    admitted.clear();
    rows.clear();
  }
  [[nodiscard]] bool empty() const { return preempted.empty() && admitted.empty() && rows.empty(); }
};

}  // namespace inkstone::scheduler
