// SPDX-License-Identifier: Apache-2.0
// ops/sample.h - draws one token per row of logits under each request's rules, and reports log-probabilities.
#pragma once

#include <cstdint>

#include "ops/cost.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

inline constexpr std::int32_t kMaxTopLogprobs = 20;
inline constexpr std::int32_t kNoHistory = 0x7fffffff;  // nothing is counted, drafts neither

// What one request wants; stays the same from step to step (save `history_end` and its list). Plain data in
// the backend's memory. The defaults change nothing: the draw is from softmax(logits).
struct SampleRules {
  std::uint64_t seed = 0;
  std::uint32_t choice = 0;
  float temperature = 1;   // 0: greedy, the lowest id among the largest logits
  std::int32_t top_k = 0;  // 0: off
  float top_p = 1;         // 1: off; 0 keeps one token
  float min_p = 0;         // 0: off
  float repetition_penalty =
      1;  // divides positive and multiplies other logits of tokens seen in prompt or answer
  float presence_penalty = 0;   // subtracted once for tokens of the answer
  float frequency_penalty = 0;  // subtracted per occurrence in the answer
  std::int32_t num_top = -1;  // -1: no log-probabilities; else that of the drawn token and of this many best
  std::int32_t mask = 0;      // row of `masks` that applies beside row 0 (a grammar's)
  std::int32_t min_position = 0;          // kEndToken entries are forbidden at drawn positions below this one
  std::int32_t history_end = kNoHistory;  // the list accounts for the tokens at positions below this one
  std::int32_t adjust_begin = 0;          // the list: entries [adjust_begin, adjust_end) of `adjustments`
  std::int32_t adjust_end = 0;
};

// One token of a request's list. Ids are valid and ascend, so each occurs once.
struct TokenAdjustment {
  std::int32_t id = 0;
  std::int32_t generated = 0;  // occurrences in the answer so far
  float bias = 0;              // added last
  std::uint32_t flags = 0;     // kSeenToken, kEndToken
};
inline constexpr std::uint32_t kSeenToken = 1;  // occurs in prompt or answer
inline constexpr std::uint32_t kEndToken = 2;   // see SampleRules::min_position

static_assert(sizeof(SampleRules) == 64 && sizeof(TokenAdjustment) == 16, "shared with device code");

// A row that has a fault gives id 0, so that a captured next step stays in bounds; its request must fail.
enum class SampleFault : std::int32_t {
  kNone = 0,
  kNotFinite = 1,    // a valid logit is NaN or +infinity, or became infinite in step 1
  kNoCandidate = 2,  // every token is forbidden or -infinity
};

// For each row, in this order, in f32:
//   1. repetition, then frequency and presence penalties, then bias; drafts count as tokens of the answer
//   2. forbidden tokens leave: ids >= num_valid, bits set in masks[0] and masks[rules.mask], end tokens too
//   early
//   3. x = (adjusted - largest adjusted) / temperature
//   4. over candidates in the order (x descending, id ascending), the shortest prefix that satisfies all of
//      top-k: at most top_k tokens;
//      top-p: its mass reaches top_p of the mass of what top-k kept; a token's mass is floor(exp(x) * 2^40),
//      summed in
//             integers, so that no order of summation matters; the mass to reach is ceil(top_p * whole) in
//             f64;
//      min-p: exp(x) >= min_p
//   5. the token with the largest x + g, g the noise of ops/noise.h; the lowest id among equal sums.
// So a row's result depends on its logits, rules, list, drafts and position only.
//
// Log-probabilities are those of the model, not of the rules: log-softmax of the unadjusted logits over the
// num_valid ids, at temperature 1. The best tokens are listed by (value descending, id ascending), those of
// masks[0] left out.
struct SampleArgs {
  TensorView logits;           // [S, V] f32; ids from num_valid on are padding: never read
  std::int64_t num_valid = 0;  // <= V
  TensorView rules;            // [N, 64] u8: SampleRules
  TensorView rule_of_row;      // [S] i32; -1: padding, gives id 0 and no fault
  TensorView positions;        // [S] i32: of the drawn token
  // The token fed at each row, at position positions[i] - 1. Rows of one sequence follow each other, so the
  // drafts before row i are fed_tokens[i - n + 1 .. i] with n = positions[i] - history_end, none if n <= 0.
  // Empty: no drafts.
  TensorView fed_tokens;    // [S] i32 or empty
  TensorView adjustments;   // [A, 16] u8: TokenAdjustment, or empty
  TensorView masks;         // [G, ceil(num_valid / 32)] i32: bit id % 32 of word id / 32 set = forbidden
  TensorView ids;           // out [S] i32
  TensorView faults;        // out [S] i32: SampleFault
  TensorView logprobs;      // out [S] f32 or empty: of the drawn tokens; 0 where num_top is -1 or at a fault
  TensorView top_ids;       // out [S, B] i32 or empty, B >= every num_top; -1 behind the last
  TensorView top_logprobs;  // out [S, B] f32, -infinity behind the last
  TensorView workspace;     // [bytes] u8, aligned to 8
};

// Shapes, types, alignment; not the contents of device memory.
void check(const SampleArgs& args);
Cost cost(const SampleArgs& args);

class SampleOps {
 public:
  virtual ~SampleOps() = default;
  // Size of SampleArgs::workspace for up to `rows` rows.
  [[nodiscard]] virtual std::int64_t sample_workspace_bytes(std::int64_t rows,
                                                            std::int64_t num_valid) const = 0;
  virtual void sample(const SampleArgs& args, Stream& stream) = 0;
};

}  // namespace inkstone::ops
