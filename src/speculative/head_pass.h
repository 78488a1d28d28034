// SPDX-License-Identifier: Apache-2.0
// speculative/head_pass.h - the chained MTP heads over rows of several sequences, to keep their state up to
// date and to draft (`model.md` 11, `serving.md` 7.2).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/cache_view.h"
#include "model/decoder.h"
#include "model/mtp.h"
#include "ops/backend.h"
#include "sampling/sampler.h"
#include "speculative/acceptance.h"
#include "speculative/drafter.h"

namespace inkstone::speculative {

// One sequence of a pass.
//
//   positions   0 ...            begin ............ own_begin ............ end
//   head rows   final            run in this pass                          |
//   input                        mtp.hidden ring    the trunk's output     |
struct HeadRows {
  HeadRange range;
  std::int64_t own_begin = 0;  // from here on hidden rows come from the trunk's output
  std::int64_t trunk_row = 0;  // of position own_begin in that output
  std::span<const std::int32_t> tokens;
  std::int64_t num_drafts = 0;  // 0: only keep the state up to date
};

struct HeadPassLimits {
  std::int64_t depths = 0;         // heads in use: those that have state groups
  std::int64_t max_rows = 0;       // of a pass, all sequences together
  std::int64_t max_sequences = 0;  // of a pass
  std::int64_t max_pages = 0;      // columns of the page table
};

struct HeadParts {
  const checkpoint::ModelConfig* config = nullptr;
  const model::ModelWeights* weights = nullptr;
  ops::Backend* backend = nullptr;
  const model::Decoder* trunk = nullptr;
};

// Owns the memory of a pass; the parts outlive it. One thread. Nothing is allocated after the first passes.
class HeadPass {
 public:
  static Result<std::unique_ptr<HeadPass>> create(const HeadParts& parts, const HeadPassLimits& limits,
                                                  const sampling::TokenMask& forbidden, ops::Stream& stream);

  // The trunk's hidden rows of a step into the "mtp.hidden" rings: `index` [T] i32 on the backend is slot *
  // ring rows + position mod ring rows for the last ring's worth of rows of each sequence, -1 for others.
  void store_hidden(const TensorView& hidden, const TensorView& index, const model::CacheView& cache,
                    ops::Stream& stream) const;

  // Runs each sequence's depths over its rows. `trunk` is the output [T, M] of a step of prompts, whose head
  // rows are of the prefill class too; without it the rows are of the step class. Of `cache` storage and page
  // table count. Waits for the stream where it drafts. drafts[i] gets at most rows[i].num_drafts tokens,
  // fewer where a head's logits are not finite: heads whose state was not kept up give no drafts, and nothing
  // else.
  Status run(std::span<const HeadRows> rows, const TensorView& trunk, const model::CacheView& cache,
             std::vector<Drafts>& drafts, ops::Stream& stream);

  void set_override(DraftOverride chosen) { override_ = std::move(chosen); }
  [[nodiscard]] bool has_override() const { return override_ != nullptr; }

  // Free while no pass runs.
  [[nodiscard]] TensorView workspace() const {
    return {workspace_.get(), ScalarType::kU8, {workspace_bytes_}};
  }

 private:
  // Arrays of a pass; each has its place in the staging memory and on the backend.
  enum class Input { kSequence, kPosition, kBegin, kFirst, kSlots, kTable, kRing, kTrunk, kLogits, kMedia };
  static constexpr std::int64_t kInputs = 10;  // the ids of each depth follow

  HeadPass(const HeadParts& parts, const HeadPassLimits& limits);
  Status allocate(const sampling::TokenMask& forbidden, ops::Stream& stream);
  TensorView put(std::int64_t place, std::span<const std::int32_t> values, ops::Stream& stream);
  TensorView put(Input input, ops::Stream& stream);
  std::vector<std::int32_t>& list(Input input) { return lists_[static_cast<std::size_t>(input)]; }

  void order_sequences(std::span<const HeadRows> rows);
  void add_sequence(const HeadRows& rows, std::int32_t sequence, std::int32_t ring_rows);
  void lay_out(std::span<const HeadRows> rows, const model::CacheView& cache, ops::Stream& stream);
  TensorView gather_hidden(const TensorView& trunk, const model::CacheView& cache,
                           model::Workspace& workspace, ops::Stream& stream);
  void keep_sequences(std::int64_t count);
  void set_tokens(std::span<const HeadRows> rows, std::int64_t depth, const std::vector<Drafts>& drafts,
                  ops::Stream& stream);
  void set_media(std::span<const HeadRows> rows, std::int64_t depth, ops::Stream& stream);
  void choose_drawing(std::span<const HeadRows> rows, std::int64_t depth, const std::vector<Drafts>& drafts);
  Status draw(std::span<const HeadRows> rows, std::int64_t depth, const TensorView& hidden,
              model::Workspace& workspace, std::vector<Drafts>& drafts, ops::Stream& stream);

  HeadParts parts_;
  HeadPassLimits limits_;
  model::MtpHeads heads_;
  std::size_t hidden_group_ = 0;
  std::unique_ptr<sampling::Sampler> sampler_;
  DraftOverride override_;

  ops::Buffer inputs_;
  ops::Buffer table_;
  ops::Buffer workspace_;
  ops::Buffer media_;
  std::int64_t workspace_bytes_ = 0;
  std::int64_t stride_ = 0;  // i32 of each input array

  // Of the pass.
  std::array<std::vector<std::int32_t>, kInputs> lists_;
  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> staging_;
  std::vector<float> media_staging_;
  std::vector<std::size_t> order_;  // of the sequences: those with more depths first
  model::ForwardBatch batch_;
  model::CacheView view_;
  TensorView ring_index_;
  TensorView trunk_index_;
  std::vector<sampling::RowDraw> draws_;
  std::vector<std::size_t> drawing_;  // request of each draw
};

}  // namespace inkstone::speculative
