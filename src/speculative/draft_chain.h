// SPDX-License-Identifier: Apache-2.0
// speculative/draft_chain.h - the chained MTP heads over windows of a constant number of rows, the host
// having no part between the verify step and the last draft (`serving.md` 7.7): for devices, where what the
// host waits for costs more than a few rows. speculative/head_pass.h serves what does not fit a window.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/mtp.h"
#include "ops/backend.h"
#include "sampling/sampler.h"
#include "speculative/drafter.h"
#include "speculative/head_pass.h"

namespace inkstone::speculative {

// One sequence of a chain. Its window ends before its newest token, which the device finds out where a verify
// step is enqueued with the chain; without one it is the last known.
struct WindowRequest {
  bool with_step = false;
  std::int32_t sequence = 0;             // of the step
  std::int64_t fed_drafts = 0;           // that the step verifies
  std::span<const std::int32_t> tokens;  // known before the step
  std::int64_t num_drafts = 0;           // wanted
  HeadRange heads;                       // `begin`: rows before it need not run; `end` does not count
};

struct WindowDrafts {
  Drafts drafts;               // fewer than wanted where a head's logits are not finite
  std::int64_t num_right = 0;  // of the drafts that the step verified
};

// The rows of the step, one draw behind each, as ops/draft.h has them.
struct VerifyRows {
  TensorView row_begin;       // [S + 1] i32
  TensorView first_position;  // [S] i32
  TensorView fed;             // [T] i32
  TensorView drawn;           // [T] i32
};

// Whether a window holds what the heads need: all rows that must run, none before the sequence's first, no
// medium; no grammar, whose mask of a draft needs the draft before it; and no penalties with a step, which
// count its tokens.
bool fits_window(const WindowRequest& request, std::int64_t max_depths);

// One round is: plan, enqueue, fetch, and after a wait for the stream collect. Owns the memory of a round
// but the workspace; the parts outlive it. One thread. Nothing is allocated after the first rounds.
class DraftChain {
 public:
  // `workspace` of HeadPass, whose max_rows are max_sequences * (depths + 1) at least.
  static Result<std::unique_ptr<DraftChain>> create(const HeadParts& parts, const HeadPassLimits& limits,
                                                    const TensorView& workspace,
                                                    const sampling::TokenMask& forbidden,
                                                    ops::Stream& stream);

  // Host planning and upload. `requests` fit a window and have depths, all with a step or none. `padded`: to
  // a number of windows that recordings are made of.
  Status plan(std::span<const WindowRequest> requests, bool padded, ops::Stream& stream);
  // What a recording of enqueue() depends on beside the memory of its arguments.
  [[nodiscard]] std::array<std::int64_t, 4> shape() const { return {windows_, width_, depths_, links_}; }
  [[nodiscard]] std::int64_t memory_version() const { return sampler_->memory_version(); }

  // May be recorded. `step`: empty without one. Of `cache` storage and the whole page table count.
  void enqueue(const VerifyRows& step, const model::CacheView& cache, ops::Stream& stream);
  void fetch(ops::Stream& stream);
  // By request.
  void collect(std::vector<WindowDrafts>& results) const;

 private:
  // Of each depth: sequences that go deeper come first, the others are padding.
  struct DepthInputs {
    TensorView row_sequence;  // [B * W]
    TensorView row_begin;     // [B + 1]
    TensorView slots;         // [B]
    TensorView draft_of_row;  // [B * W] into the drafts [links * B]; -1: the token was known
  };
  struct Inputs {
    TensorView sequence, slots, table_rows, logit_rows;  // [B]
    TensorView history, rows;                            // [B * W]; `rows`: 0, 1, 2, ...
    TensorView step_begin, step_first;                   // of a plan without a step
    std::vector<DepthInputs> depths;
  };

  DraftChain(const HeadParts& parts, const HeadPassLimits& limits, const TensorView& workspace);
  Status allocate(const sampling::TokenMask& forbidden, ops::Stream& stream);
  [[nodiscard]] std::int64_t input_elements() const;
  void choose_shape(std::span<const WindowRequest> requests, bool padded);
  TensorView put(std::int64_t count, std::int32_t** host);
  void put_sequences(std::span<const WindowRequest> requests);
  void put_newest(std::span<const WindowRequest> requests);
  void put_depth(std::span<const WindowRequest> requests, std::int64_t depth);
  [[nodiscard]] TensorView result(std::int64_t offset, Shape shape) const;
  [[nodiscard]] model::ForwardBatch batch_of(std::int64_t depth) const;
  void advance(const VerifyRows& step, const model::CacheView& cache, ops::Stream& stream);
  void feed_drafts(std::int64_t depth, const TensorView& ids, ops::Stream& stream);

  HeadParts parts_;
  HeadPassLimits limits_;
  model::MtpHeads heads_;
  std::size_t hidden_group_ = 0;
  TensorView workspace_;
  std::unique_ptr<sampling::Sampler> sampler_;
  ops::Buffer staging_;  // host: inputs on their way
  ops::Buffer inputs_;
  ops::Buffer results_;
  ops::Buffer right_;  // host
  ops::Buffer table_;

  // Of the round.
  std::int64_t windows_ = 0;  // B, padding included
  std::int64_t width_ = 0;    // W: rows of a window
  std::int64_t depths_ = 0;   // that run
  std::int64_t links_ = 0;    // that draw
  std::int64_t used_ = 0;     // elements of the inputs
  Inputs in_;
  std::vector<std::size_t> order_;    // request of each window
  std::vector<std::int64_t> wanted_;  // drafts, by request
  std::vector<sampling::RowDraw> draws_;
};

}  // namespace inkstone::speculative
