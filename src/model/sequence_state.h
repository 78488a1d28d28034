// SPDX-License-Identifier: Apache-2.0
// model/sequence_state.h - storage of all state groups for one sequence, and the batch tensors of its next
// rows.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/cache_view.h"
#include "model/forward_batch.h"
#include "model/state_spec.h"
#include "ops/backend.h"

namespace inkstone::model {

// Pages 0, 1, 2, ... and slot 0 of its own storage.
class SequenceState {
 public:
  static Result<SequenceState> create(const StateSpec& spec, std::int64_t max_tokens, ops::Backend& backend,
                                      ops::Stream& stream);

  [[nodiscard]] const CacheView& view() const { return view_; }

 private:
  std::vector<ops::Buffer> buffers_;
  CacheView view_;
};

// Device tensors of one packed batch of a single sequence: rows at positions [first, first + ids.size()).
class SequenceBatch {
 public:
  static Result<SequenceBatch> create(std::int64_t max_rows, ops::Backend& backend);

  // Uploads the rows; the returned view is valid until the next call.
  ForwardBatch fill(std::span<const std::int32_t> ids, std::int64_t first, ops::Stream& stream);
  // Uploads row indices (at most max_rows) to a tensor of their own.
  TensorView indices(std::span<const std::int32_t> rows, ops::Stream& stream);

 private:
  TensorView put(std::int64_t offset, std::span<const std::int32_t> values, ops::Stream& stream);

  ops::Backend* backend_ = nullptr;
  ops::Buffer buffer_;
  std::int64_t max_rows_ = 0;
  std::vector<std::int32_t> staging_;
};

}  // namespace inkstone::model
