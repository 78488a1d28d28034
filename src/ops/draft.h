// SPDX-License-Identifier: Apache-2.0
// ops/draft.h - what a verify step leaves for the draft heads: how many drafts were right, and the rows that
// the heads run next.
#pragma once

#include <cstdint>

#include "ops/cost.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// The rows of sequence s of a step were fed with its newest known token, at first_position[s], and drafts.
// drawn[i] is what row i drew: a draft is right while it equals what the row before it drew, and what the
// last right row drew is the newest token then, at position
//   end = first_position[s] + right drafts + 1.
// A sequence without rows has no new token: its newest is at end = first_position[s].
//
// A window of W rows ends before the newest token; depth j of the heads reads at row p token p + 1 + j:
//
//   position   end - W ......... first_position ......... end - 1   end
//   row        0                                          W - 1
//   token      history                   | drawn               | drawn | 0: drafts, not known yet
//
// end >= W and W > right drafts.
struct AdvanceWindowsArgs {
  // The step: T rows of S sequences, one draw behind each row.
  TensorView row_begin;       // [S + 1] i32
  TensorView first_position;  // [S] i32
  TensorView fed;             // [T] i32; empty where no sequence has rows
  TensorView drawn;           // [T] i32
  // The windows, one for each of B sequences.
  TensorView sequence;         // [B] i32 of the step; -1: padding, which gets zeros and no ring rows
  TensorView slots;            // [B] i32 of the ring below
  TensorView history;          // [B, W] i32: the newest known tokens before the step, oldest first
  std::int64_t ring_rows = 0;  // of the ring that holds the hidden rows of a slot
  // Results.
  TensorView num_right;      // [B] i32
  TensorView row_begins_at;  // [B] i32: position of row 0
  TensorView row_position;   // [B * W] i32
  TensorView ring_index;     // [B * W] i32: slot * ring_rows + position mod ring_rows; -1 for padding
  TensorView ids;            // [D, B * W] i32: what depth j reads
  TensorView draw_position;  // [D, B] i32: end + 1 + j, of the token that depth j drafts
};

void check(const AdvanceWindowsArgs& args);
Cost cost(const AdvanceWindowsArgs& args);

class DraftOps {
 public:
  virtual ~DraftOps() = default;
  virtual void advance_windows(const AdvanceWindowsArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
