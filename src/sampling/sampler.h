// SPDX-License-Identifier: Apache-2.0
// sampling/sampler.h - station 10 of docs/journey.md: logits of a step to tokens, each under its own
// request's rules. Input: logits of model/decoder, rules of the sequences. Output goes to
// speculative/verifier and the engine's commit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/memory.h"
#include "ops/sample.h"
#include "sampling/sequence_rules.h"
#include "sampling/token_mask.h"

namespace inkstone::sampling {

// One row of logits to draw from. Rows of one sequence that verify drafts follow each other in order of
// position.
struct RowDraw {
  const SequenceRules* sequence = nullptr;  // null: a padding row, gives id 0
  std::int32_t position = 0;                // of the drawn token
  std::int32_t fed_token = 0;               // the token that gave this row, at position - 1
  // The rows before this one feed this sequence's drafts, which penalties then count. A drafter, whose rows
  // are one per sequence, says no: its draws count accepted tokens only.
  bool counts_drafts = true;
  // Further forbidden ids (a grammar's), as TokenMask::words(), perhaps fewer words; or empty.
  std::span<const std::uint32_t> mask{};
};

struct SampledToken {
  std::int32_t id = 0;
  ops::SampleFault fault = ops::SampleFault::kNone;  // anything else: fail the request, ignore the rest
  float logprob = 0;                                 // where the request asked for log-probabilities
  std::span<const std::int32_t> top_ids;             // as many as asked for and found, best first
  std::span<const float> top_logprobs;
};

// "logits of the model are not finite" and the like, for the request that met the fault.
Error to_error(ops::SampleFault fault);

// Owns the memory that the operation works in; one step in flight. Used by the engine's thread. After the
// first steps nothing is allocated, unless the lists of penalised requests outgrow everything seen so far.
class Sampler {
 public:
  // The operations must outlive the sampler. Uploads `forbidden` and waits for the stream. `links`: draws
  // that run_link may make in a row from one planned row.
  static Result<std::unique_ptr<Sampler>> create(ops::MemoryOps& memory, ops::SampleOps& operations,
                                                 const TokenMask& forbidden, std::int64_t max_rows,
                                                 ops::Stream& stream, std::int64_t links = 1);

  // Host planning and upload of the step's rules. Overwrites the previous step's: wait for that first.
  Status plan(std::span<const RowDraw> rows, ops::Stream& stream);

  // Enqueues the drawing of the planned rows: no host work depends on data, so it may be captured. `logits`
  // [S, V] f32. `fed_tokens` [S] i32 in the backend's memory replaces the planned ones (drafts the host never
  // saw); or empty.
  void run(const TensorView& logits, const TensorView& fed_tokens, ops::Stream& stream);

  // The same for chains of drafts, whose every link is drawn by the rules of its planned row at a position
  // that the host need not know: `positions` [S] i32 in the backend's memory. No log-probabilities.
  void run_link(std::int64_t link, const TensorView& logits, const TensorView& positions,
                ops::Stream& stream);

  // Enqueues the download of what token() returns after the stream has been waited for.
  void fetch(ops::Stream& stream);
  [[nodiscard]] SampledToken token(std::int64_t row_idx) const;
  [[nodiscard]] SampledToken link_token(std::int64_t link, std::int64_t row_idx) const;

  // Changes when run() would use other memory than before: a recording of it is stale then.
  [[nodiscard]] std::int64_t memory_version() const { return list_capacity_; }

  // The drawn ids [S] i32 in the backend's memory, for operations that follow in the stream.
  [[nodiscard]] TensorView device_ids() const;
  // Those of all links: [links, S].
  [[nodiscard]] TensorView device_link_ids(std::int64_t links) const;

 private:
  Sampler(ops::MemoryOps& memory, ops::SampleOps& operations, std::int64_t num_valid, std::int64_t max_rows,
          std::int64_t links);

  Status allocate(const TokenMask& forbidden, ops::Stream& stream);
  void collect(std::span<const RowDraw> rows);
  std::int32_t add_rules(const RowDraw& row);
  std::int32_t add_mask(std::span<const std::uint32_t> mask);
  Status reserve_lists();
  void upload(ops::Stream& stream);
  [[nodiscard]] ops::SampleArgs arguments(const TensorView& logits, std::int64_t link) const;

  ops::MemoryOps& memory_;
  ops::SampleOps& operations_;
  std::int64_t num_valid_;
  std::int64_t max_rows_;
  std::int64_t links_;

  std::int64_t num_rows_ = 0;  // of the planned step
  bool wants_top_ = false;

  // Host halves, page-locked where it matters: written by plan() and fetch(), read by the copies of the
  // stream.
  ops::Buffer inputs_;                       // rules [S], then rule_of_row, positions, fed_tokens [S] i32
  ops::Buffer outputs_;                      // ids, faults, logprobs [S], then top_ids, top_logprobs [S, 20]
  ops::Buffer list_staging_;                 // lists_ on their way
  std::vector<ops::TokenAdjustment> lists_;  // of all sequences, one behind the other
  std::vector<std::uint32_t> masks_;         // row 0: what is always forbidden
  std::int64_t num_rules_ = 0;

  // Device halves.
  ops::Buffer device_inputs_;
  ops::Buffer device_lists_;
  ops::Buffer device_masks_;
  ops::Buffer device_outputs_;
  ops::Buffer workspace_;
  std::int64_t list_capacity_ = 0;  // entries
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace inkstone::sampling
