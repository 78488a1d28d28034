// SPDX-License-Identifier: Apache-2.0
#include "engine/step_graphs.h"

#include <algorithm>

#include "base/check.h"

namespace inkstone::engine {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// Each by itself up to 16, where a row costs most beside the rest; then eights, then thirty-twos: at most a
// third of a step is padding.
std::int64_t bucket_of(std::int64_t rows) {
  if (rows <= 16) return rows;
  return rows <= 64 ? round_up(rows, 8) : round_up(rows, 32);
}

template <class T>
void extend(const std::vector<T>& from, std::int64_t size, const T& padding, std::vector<T>& to) {
  to.assign(from.begin(), from.end());
  to.resize(static_cast<std::size_t>(size), padding);
}

}  // namespace

StepGraphs::StepGraphs(ops::Backend& backend, const StepGraphLimits& limits, bool enabled)
    : backend_(backend), limits_(limits), enabled_(enabled && backend.captures()) {}

std::int64_t StepGraphs::rows_for(const StepBatch& batch) const {
  const std::int64_t rows = batch.num_rows();
  const bool only_decodes = batch.step_rows == rows && batch.num_draws() == rows && batch.media.empty();
  if (!enabled_ || !only_decodes || rows == 0 || rows > limits_.max_rows) return 0;
  return std::min(bucket_of(rows), limits_.max_rows);
}

void StepGraphs::pad(const StepBatch& from, std::int64_t rows, StepBatch& to) const {
  const std::int64_t sequences = std::min(rows, limits_.max_sequences);
  const auto filled = static_cast<std::int32_t>(from.num_rows());
  extend(from.ids, rows, 0, to.ids);
  extend(from.row_sequence, rows, -1, to.row_sequence);
  extend(from.row_position, rows, 0, to.row_position);
  extend(from.row_begin, sequences + 1, filled, to.row_begin);
  extend(from.first_position, sequences, 0, to.first_position);
  extend(from.slots, sequences, -1, to.slots);
  extend(from.logit_rows, rows, filled, to.logit_rows);
  extend(from.logit_slots, rows, -1, to.logit_slots);
  extend(from.draws, rows, sampling::RowDraw{}, to.draws);
  to.step_rows = rows;
  to.max_sequence_rows = limits_.max_sequence_rows;
}

}  // namespace inkstone::engine
