// SPDX-License-Identifier: Apache-2.0
#include "model/sequence_state.h"

#include <algorithm>
#include <numeric>

namespace inkstone::model {

Result<SequenceState> SequenceState::create(const StateSpec& spec, std::int64_t max_tokens,
                                            ops::Backend& backend, ops::Stream& stream) {
  SequenceState state;
  const std::int64_t num_pages = (max_tokens + ops::kPageTokens - 1) / ops::kPageTokens;
  for (const StateGroup& group : spec.groups) {
    const std::int64_t num_rows = group.paged() ? num_pages * ops::kPageTokens : group.ring_rows;
    ops::Buffer buffer = INK_TRY(backend.allocate(num_rows * group.bytes_per_token()));
    state.view_.storage.emplace_back(buffer.get(), group.type, Shape{num_rows, group.row_elements});
    state.view_.ring_rows.push_back(group.ring_rows);
    state.buffers_.push_back(std::move(buffer));
  }
  std::vector<std::int32_t> table(static_cast<std::size_t>(num_pages) + 1);
  std::iota(table.begin(), table.end() - 1, 0);
  table.back() = 0;  // the slot
  ops::Buffer tables =
      INK_TRY(backend.allocate(static_cast<std::int64_t>(table.size() * sizeof(std::int32_t))));
  backend.upload(tables.get(), table.data(), static_cast<std::int64_t>(table.size() * sizeof(std::int32_t)),
                 stream);
  stream.wait();
  state.view_.page_table = TensorView(tables.get(), ScalarType::kI32, {1, num_pages});
  state.view_.slots = TensorView(tables.get() + num_pages * 4, ScalarType::kI32, {1});
  state.buffers_.push_back(std::move(tables));
  return state;
}

// Layout of the buffer, in i32: ids, row_sequence, row_position, indices (max_rows each), row_begin (2),
// first_position (1).
Result<SequenceBatch> SequenceBatch::create(std::int64_t max_rows, ops::Backend& backend) {
  SequenceBatch batch;
  batch.backend_ = &backend;
  batch.max_rows_ = max_rows;
  batch.staging_.resize(static_cast<std::size_t>(4 * max_rows + 3));
  batch.buffer_ =
      INK_TRY(backend.allocate(static_cast<std::int64_t>(batch.staging_.size() * sizeof(std::int32_t))));
  return batch;
}

TensorView SequenceBatch::put(std::int64_t offset, std::span<const std::int32_t> values,
                              ops::Stream& stream) {
  std::copy(values.begin(), values.end(), staging_.begin() + offset);
  std::byte* device = buffer_.get() + offset * 4;
  backend_->upload(device, staging_.data() + offset, static_cast<std::int64_t>(values.size_bytes()), stream);
  return {device, ScalarType::kI32, {static_cast<std::int64_t>(values.size())}};
}

ForwardBatch SequenceBatch::fill(std::span<const std::int32_t> ids, std::int64_t first, ops::Stream& stream) {
  const auto num_rows = static_cast<std::int64_t>(ids.size());
  INK_CHECK(num_rows <= max_rows_, "the batch was made for this many rows");
  stream.wait();  // the staging memory of the previous batch may still be read
  std::vector<std::int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first));
  const std::vector<std::int32_t> sequences(ids.size(), 0);
  const std::array<std::int32_t, 2> begin = {0, static_cast<std::int32_t>(num_rows)};
  const auto first_position = static_cast<std::int32_t>(first);
  ForwardBatch batch;
  batch.ids = put(0, ids, stream);
  batch.rows.row_sequence = put(max_rows_, sequences, stream);
  batch.rows.row_position = put(2 * max_rows_, positions, stream);
  batch.rows.row_begin = put(4 * max_rows_, begin, stream);
  batch.rows.first_position = put(4 * max_rows_ + 2, {&first_position, 1}, stream);
  batch.rows.max_sequence_rows = num_rows;
  return batch;
}

TensorView SequenceBatch::indices(std::span<const std::int32_t> rows, ops::Stream& stream) {
  INK_CHECK(static_cast<std::int64_t>(rows.size()) <= max_rows_, "no more indices than rows");
  stream.wait();
  return put(3 * max_rows_, rows, stream);
}

}  // namespace inkstone::model
