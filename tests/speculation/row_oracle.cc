// SPDX-License-Identifier: Apache-2.0
#include "tests/speculation/row_oracle.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "model/decoder.h"
#include "model/mtp.h"
#include "model/sequence_state.h"

namespace inkstone::testing {
namespace {

constexpr std::int64_t kChunk = 8;  // rows at a time: fewer than any ring forgets

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

template <class T>
T value_of(Result<T> result) {
  INK_CHECK(result.has_value(), result ? "" : result.error().message);
  return std::move(*result);
}

}  // namespace

class RowOracle::Run {
 public:
  Run(const MiniModel& mini, RowOracle& oracle, std::int64_t depths)
      : mini_(mini),
        oracle_(oracle),
        spec_(model::make_state_spec(mini.config, {.mtp_depths = depths})),
        decoder_(mini.config, mini.weights, *mini.backend),
        heads_(mini.config, mini.weights, *mini.backend, decoder_),
        stream_(mini.backend->make_stream()),
        state_(value_of(model::SequenceState::create(spec_, size(), *mini.backend, *stream_))),
        batch_(value_of(model::SequenceBatch::create(kChunk, *mini.backend))),
        memory_(at(decoder_.workspace_bytes(kChunk, 1) + heads_.workspace_bytes(kChunk))) {
    oracle_.rows_.assign(spec_.groups.size(), std::vector<std::vector<std::byte>>(at(size())));
  }

  void trunk() {
    hidden_.clear();
    for (std::int64_t begin = 0; begin < size(); begin += kChunk) {
      const std::int64_t end = std::min(begin + kChunk, size());
      model::Workspace workspace = fresh_workspace();
      const auto ids = std::span(oracle_.tokens_).subspan(at(begin), at(end - begin));
      const auto batch = batch_.fill(ids, begin, *stream_);
      const model::ForwardOutput out = decoder_.forward(batch, state_.view(), workspace, *stream_);
      keep_hidden(out.hidden);
      for (std::int64_t layer = 0; layer < mini_.config.num_layers(); ++layer) capture(layer, begin, end);
      const std::size_t group = spec_.groups.size() - 1;
      if (spec_.groups[group].name != "mtp.hidden") continue;
      for (std::int64_t p = begin; p < end; ++p) {
        const auto* row = reinterpret_cast<const std::byte*>(hidden_.data() + p * mini_.config.width);
        oracle_.rows_[group][at(p)].assign(row, row + spec_.groups[group].bytes_per_token());
      }
    }
  }

  void head(std::int64_t depth) {
    std::vector<float> input = std::move(hidden_);
    hidden_.clear();
    const std::int64_t rows = size() - 1 - depth;
    for (std::int64_t begin = 0; begin < rows; begin += kChunk) {
      const std::int64_t end = std::min(begin + kChunk, rows);
      model::Workspace workspace = fresh_workspace();
      const auto ids = std::span(oracle_.tokens_).subspan(at(begin + 1 + depth), at(end - begin));
      const auto batch = batch_.fill(ids, begin, *stream_);
      const std::int64_t width = mini_.config.width;
      const TensorView hidden(reinterpret_cast<std::byte*>(input.data() + begin * width), ScalarType::kF32,
                              {end - begin, width});
      keep_hidden(heads_.forward(depth, hidden, batch, state_.view(), workspace, *stream_));
      capture(mini_.config.num_layers() + depth, begin, end);
    }
  }

 private:
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(oracle_.tokens_.size()); }
  model::Workspace fresh_workspace() { return {memory_.data(), static_cast<std::int64_t>(memory_.size())}; }

  void keep_hidden(const TensorView& rows) {
    const auto* values = rows.as<float>();
    hidden_.insert(hidden_.end(), values, values + rows.shape.num_elements());
  }

  void capture(std::int64_t block, std::int64_t begin, std::int64_t end) {
    for (std::int64_t g = block * model::kGroupsPerBlock; g < (block + 1) * model::kGroupsPerBlock; ++g) {
      const std::int64_t ring = spec_.groups[at(g)].ring_rows;
      const std::int64_t bytes = spec_.groups[at(g)].bytes_per_token();
      for (std::int64_t p = begin; p < end; ++p) {
        const std::byte* row = state_.view().storage[at(g)].data + (ring == 0 ? p : p % ring) * bytes;
        oracle_.rows_[at(g)][at(p)].assign(row, row + bytes);
      }
    }
  }

  const MiniModel& mini_;
  RowOracle& oracle_;
  model::StateSpec spec_;
  model::Decoder decoder_;
  model::MtpHeads heads_;
  std::unique_ptr<ops::Stream> stream_;
  model::SequenceState state_;
  model::SequenceBatch batch_;
  std::vector<std::byte> memory_;
  std::vector<float> hidden_;  // [rows, M] of the trunk, then of the head before
};

RowOracle::RowOracle(const MiniModel& mini, std::vector<std::int32_t> tokens, std::int64_t depths)
    : tokens_(std::move(tokens)) {
  Run run(mini, *this, depths);
  run.trunk();
  for (std::int64_t depth = 0; depth < depths; ++depth) run.head(depth);
}

std::span<const std::byte> RowOracle::row(std::size_t group, std::int64_t position) const {
  return rows_[group][at(position)];
}

}  // namespace inkstone::testing
