// SPDX-License-Identifier: Apache-2.0
// engine/batch_builder.h - station 7 of docs/journey.md: from the scheduler's plan and the cache's pages to
// the arrays of one step, as model/forward_batch wants them.
#pragma once

#include <span>
#include <vector>

#include "cache/ids.h"
#include "engine/model_runner.h"
#include "scheduler/step_plan.h"

namespace inkstone::engine {

// What one sequence brings into a step.
struct RowSource {
  std::int32_t request = 0;     // index of the request: small, used again
  std::uint64_t admission = 0;  // never used again: pages of one admission only grow
  std::int64_t first_position = 0;
  std::int64_t rows = 0;
  bool decode = false;
  bool samples = false;
  std::span<const std::int32_t> tokens;  // known to the host
  std::span<const std::int32_t>
      drafts;  // to be verified behind them; later positions are taken from the device
  cache::SlotId slot;
  std::span<const cache::PageId> pages;
  const sampling::SequenceRules* rules = nullptr;
  sampling::TokenConstraint* constraint = nullptr;
  std::int64_t head_begin = 0;  // of a prompt: the heads run from here to the end of its rows
  std::int64_t head_depths = 0;
  std::span<const speculative::MediaSpan> media;
};

// Keeps decoding sequences at the same place of the batch from step to step, so that only new pages of a
// sequence travel to the device. Allocates in its constructor only.
class BatchBuilder {
 public:
  BatchBuilder(std::int64_t max_requests, std::int64_t max_sequences, std::int64_t max_pages);

  // Room in a batch for everything a step may hold.
  static void reserve(StepBatch& batch, std::int64_t max_rows, std::int64_t max_sequences,
                      std::int64_t max_pages);

  // `order` gets the index into `sources` of every sequence of the batch.
  void build(std::span<const RowSource> sources, StepBatch& batch, std::vector<std::int32_t>& order);

 private:
  struct TableRow {
    std::uint64_t admission = 0;
    std::int64_t entries = 0;  // valid ones on the device
  };

  void order_decodes(std::span<const RowSource> sources);
  void add_sequence(const RowSource& source, StepBatch& batch);
  void add_rows(const RowSource& source, std::int32_t sequence, StepBatch& batch);
  void add_media(const RowSource& source, std::int32_t first_row, StepBatch& batch);
  static void add_draws(const RowSource& source, StepBatch& batch);
  static void add_heads(const RowSource& source, std::int32_t sequence, StepBatch& batch);
  void add_table_change(const RowSource& source, std::int32_t row, StepBatch& batch);

  std::vector<std::int32_t> lanes_;              // requests in the order of the batch
  std::vector<std::int32_t> source_of_request_;  // of this step's decodes, -1 otherwise
  std::vector<TableRow> table_;
};

}  // namespace inkstone::engine
