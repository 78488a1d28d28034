// SPDX-License-Identifier: Apache-2.0
// engine/model_runner.h - what the loop asks of a model: copies of state rows, and steps of packed rows. The
// real model, a stub that costs nothing and the toy of the simulation stand behind it alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "cache/row_copy.h"
#include "engine/submission.h"
#include "model/state_spec.h"
#include "sampling/sampler.h"
#include "speculative/draft_chain.h"
#include "speculative/head_pass.h"

namespace inkstone::engine {

// Stands in StepBatch::ids for a token that the host does not know yet: the last one drawn for the row's
// slot.
inline constexpr std::int32_t kLastDrawn = -1;

// Entries of the page table that change before a step: row, first entry, and the new page ids.
struct TableChange {
  std::int32_t row = 0;
  std::int32_t begin = 0;
  std::int32_t count = 0;
  std::int32_t offset = 0;  // into StepBatch::table_entries
};

struct MediaRow {
  std::int32_t row = 0;           // of the batch
  const float* vector = nullptr;  // [M]
};

// One step as host values. Rows of one sequence follow each other; decoding sequences come first. The layout
// of the fields is that of ops::PackedRows, model::CacheView and model::ForwardBatch.
struct StepBatch {
  std::vector<std::int32_t> ids;             // [T]
  std::vector<std::int32_t> row_sequence;    // [T]
  std::vector<std::int32_t> row_position;    // [T]
  std::vector<std::int32_t> row_begin;       // [S + 1]
  std::vector<std::int32_t> first_position;  // [S]
  std::vector<std::int32_t> slots;           // [S]
  std::vector<std::int32_t> logit_rows;      // [N] all rows of decoding sequences, the last of prompts
  std::vector<std::int32_t> logit_slots;     // [N] slot for which the row draws; -1: verifies a draft
  std::vector<sampling::RowDraw> draws;      // [N]
  std::vector<MediaRow> media;
  std::vector<speculative::HeadRows> head_rows;     // of prompts whose heads run with the step
  std::vector<speculative::WindowRequest> windows;  // of sequences that draft along with the step
  std::vector<TableChange> table_changes;           // row s of the table belongs to sequence s of the batch
  std::vector<std::int32_t> table_entries;
  std::int64_t step_rows = 0;  // leading rows of decoding sequences
  std::int64_t max_sequence_rows = 0;

  [[nodiscard]] std::int64_t num_rows() const { return static_cast<std::int64_t>(ids.size()); }
  [[nodiscard]] std::int64_t num_sequences() const { return static_cast<std::int64_t>(slots.size()); }
  [[nodiscard]] std::int64_t num_draws() const { return static_cast<std::int64_t>(draws.size()); }
};

// Used by one thread, the engine's. A failure is the device's: the engine gives up all its requests.
class ModelRunner {
 public:
  virtual ~ModelRunner() = default;
  [[nodiscard]] virtual const model::StateSpec& state_spec() const = 0;
  // Steps that may be enqueued beyond the one that the host waits for.
  [[nodiscard]] virtual std::int64_t steps_ahead() const { return 1; }
  // How often so far something ran that was prepared meanwhile for later runs, as by recording it: the times
  // of a round in which this rises are not those of rounds like it.
  [[nodiscard]] virtual std::int64_t first_runs() const { return 0; }
  // Where drafts come from that need the model; null: the runner has none. With drafts steps_ahead() is 0,
  // since the host must know them before the step that verifies them.
  [[nodiscard]] virtual speculative::Drafter* drafter() { return nullptr; }
  // Whether it takes StepBatch::windows, in steps of decoding sequences only: verifying and drafting are then
  // enqueued together, and the host has no part between them.
  [[nodiscard]] virtual bool drafts_with_step() const { return false; }
  // After collect() of a step with windows: waits for what they give.
  virtual Status collect_drafts(std::vector<speculative::WindowDrafts>& /*drafts*/) {
    INK_CHECK(false, "this runner drafts between steps");
  }
  // Whether there is a tower for it.
  [[nodiscard]] virtual bool takes(const PreparedMedia& /*media*/) const { return false; }
  [[nodiscard]] virtual std::int64_t media_width() const { return 0; }  // M
  // Runs a tower over rows of a medium that it takes, at most EngineOptions::encoder_rows, and waits for it.
  // `vectors`: [rows, M].
  virtual Status encode(MediaKind /*kind*/, const TensorView& /*rows*/, std::span<float> /*vectors*/) {
    INK_CHECK(false, "this runner has no towers");
  }
  // Takes effect after all steps enqueued before and before all enqueued later.
  virtual Status copy_state(std::span<const cache::RowCopy> copies) = 0;
  // Enqueues a step. `batch` stays as it is until the step has been collected.
  virtual Status submit(const StepBatch& batch) = 0;
  // Waits for the oldest step not yet collected and gives what its draws drew, in their order. What the
  // entries refer to is valid until the next collect.
  virtual Status collect(std::vector<sampling::SampledToken>& drawn) = 0;
};

}  // namespace inkstone::engine
