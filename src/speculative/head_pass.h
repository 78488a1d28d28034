// SPDX-License-Identifier: Apache-2.0
// speculative/head_pass.h - station 11 of docs/journey.md: the chained MTP heads over rows of several
// sequences, to keep their state up to date and to draft (`model.md` 11, `serving.md` 7.2).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/cache_view.h"
#include "model/decoder.h"
#include "model/mtp.h"
#include "ops/backend.h"
#include "sampling/sampler.h"
#include "sampling/sequence_rules.h"
#include "speculative/drafter.h"

namespace inkstone::speculative {

// Positions whose embedding is a tower's vector.
struct MediaSpan {
  std::int64_t begin = 0;
  std::int64_t rows = 0;
  const std::byte* vectors = nullptr;  // [rows, M] activation type, host memory
};

// One sequence of a pass. Tokens t_0 .. t_n are known, the trunk has rows up to n - 1 or, in a prompt,
// further back.
//
//   positions   0 ...            begin ............ own_begin ............ end      n
//   head rows   final            run in this pass                          |
//   input                        mtp.hidden ring    the trunk's output     |
//
// Row p of depth j reads token p + 1 + j: a known one, else a draft of this pass, else id 0. A row that read
// a draft or id 0 is provisional: whoever calls runs it again once the token is known, before any row behind
// it is read.
struct HeadRows {
  std::int32_t slot = 0;       // of the rings
  std::int32_t table_row = 0;  // of CacheView::page_table
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t own_begin = 0;  // from here on hidden rows come from the trunk's output
  std::int64_t trunk_row = 0;  // of position own_begin in that output
  std::span<const std::int32_t> tokens;
  std::span<const MediaSpan> media;
  std::int64_t num_drafts = 0;                     // 0: only keep the state up to date
  const sampling::SequenceRules* rules = nullptr;  // of drafting sequences
};

struct HeadPassLimits {
  std::int64_t depths = 0;  // heads in use
  std::int64_t max_rows = 0;
  std::int64_t max_sequences = 0;
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
                    ops::Stream& stream);

  // Runs all depths over the rows; those that draft first, in `rows` too. `trunk` is the step's output [T,
  // M], or empty when no sequence has rows from own_begin on. `cache` needs storage and page_table only.
  // Waits for the stream where it drafts. drafts[i] gets at most rows[i].num_drafts tokens; fewer where a
  // head's logits are not finite.
  Status run(std::span<const HeadRows> rows, const TensorView& trunk, const model::CacheView& cache,
             std::vector<Drafts>& drafts, ops::Stream& stream);

 private:
  HeadPass(const HeadParts& parts, const HeadPassLimits& limits);
  Status allocate(const sampling::TokenMask& forbidden, ops::Stream& stream);
  // Where a kind of index begins in the input arrays, in i32.
  enum class Input {
    kIds,
    kRowSequence,
    kRowPosition,
    kRowBegin,
    kFirst,
    kSlots,
    kTable,
    kRing,
    kTrunk,
    kLogits,
    kMedia
  };

  TensorView put(Input kind, std::span<const std::int32_t> values, ops::Stream& stream);
  void lay_out(std::span<const HeadRows> rows, const model::CacheView& cache, ops::Stream& stream);
  TensorView gather_hidden(const TensorView& trunk, const model::CacheView& cache,
                           model::Workspace& workspace, ops::Stream& stream);
  void set_tokens(std::span<const HeadRows> rows, std::int64_t depth, const std::vector<Drafts>& drafts,
                  ops::Stream& stream);
  void set_media(std::span<const HeadRows> rows, std::int64_t depth, ops::Stream& stream);
  Status draw(std::span<const HeadRows> rows, std::int64_t depth, const TensorView& hidden,
              model::Workspace& workspace, std::vector<Drafts>& drafts, ops::Stream& stream);

  HeadParts parts_;
  HeadPassLimits limits_;
  model::MtpHeads heads_;
  std::size_t hidden_group_ = 0;
  std::unique_ptr<sampling::Sampler> sampler_;

  ops::Buffer inputs_;
  ops::Buffer workspace_;
  ops::Buffer media_;
  std::int64_t workspace_bytes_ = 0;
  std::int64_t stride_ = 0;  // i32 of each input array

  // Of the pass.
  std::vector<std::int32_t> staging_;
  std::vector<std::byte> media_staging_;
  model::ForwardBatch batch_;
  model::CacheView view_;
  TensorView ring_index_;
  TensorView trunk_index_;
  std::vector<std::int32_t> last_rows_;  // of each sequence
  std::vector<sampling::RowDraw> draws_;
  std::vector<std::size_t> drawing_;  // sequence of each draw
};

}  // namespace inkstone::speculative
