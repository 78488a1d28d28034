// SPDX-License-Identifier: Apache-2.0
// engine/step_graphs.h - steps of decoding sequences as recordings, one per number of rows: takes the batch
// of engine/batch_builder, gives one padded to a number that was recorded.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>

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

  // Runs `operations` as the recording of that many rows, which is made the second time: the first run is
  // eager and takes the memory that operations need. `flight` and `version` name the memory that `operations`
  // use; recordings of an older version are made again.
  void run(std::int64_t rows, std::size_t flight, std::int64_t version, ops::Stream& stream,
           const std::function<void()>& operations);

 private:
  static constexpr std::size_t kFlights = 2;
  struct Recording {
    std::unique_ptr<ops::Graph> graph;
    std::int64_t version = 0;
  };
  struct Bucket {
    bool ran = false;
    std::array<Recording, kFlights> recordings;
  };

  ops::Backend& backend_;
  StepGraphLimits limits_;
  bool enabled_;
  std::map<std::int64_t, Bucket> buckets_;  // by rows
};

}  // namespace inkstone::engine
