// SPDX-License-Identifier: Apache-2.0
// engine/step_graphs.h - steps of decoding sequences as recordings, one per number of rows: takes the batch
// of engine/batch_builder, gives one padded to a number that was recorded.
#pragma once

#include <functional>

#include "engine/model_runner.h"
#include "ops/backend.h"

namespace inkstone::engine {

struct StepGraphLimits {
  std::int64_t max_rows = 0;  // of a step that only decodes
  std::int64_t max_sequences = 0;
  std::int64_t max_sequence_rows = 1;  // of one sequence: a token and its drafts
};

// A recording serves every step of its number of rows: lengths, pages, slots and rules lie in the backend's
// memory. The operations are those of an eager step of as many rows, so the bits are the same. Used by one
// thread.
class StepGraphs {
 public:
  StepGraphs(ops::Backend& backend, const StepGraphLimits& limits, bool enabled);

  // Rows of the recorded step that takes the batch; 0 where the batch runs as it is: a prompt is in it, or
  // the backend records nothing.
  [[nodiscard]] std::int64_t rows_for(const StepBatch& batch) const;
  // `to` is `from` with padding rows and sequences: they have no slot, draw nothing and write nothing. Tables
  // and prompts stay behind.
  void pad(const StepBatch& from, std::int64_t rows, StepBatch& to) const;

  // Runs `operations` as the recording of `key`: rows, and what else they depend on. `version` as
  // ops::Recordings has it.
  void run(const ops::Recordings::Key& key, std::int64_t version, ops::Stream& stream,
           const std::function<void()>& operations) {
    recordings_.run(backend_, key, version, stream, operations);
  }
  [[nodiscard]] std::int64_t first_runs() const { return recordings_.first_runs(); }

 private:
  ops::Backend& backend_;
  StepGraphLimits limits_;
  bool enabled_;
  ops::Recordings recordings_;
};

}  // namespace inkstone::engine
