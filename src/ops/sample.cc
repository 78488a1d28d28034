// SPDX-License-Identifier: Apache-2.0
#include "ops/sample.h"

namespace inkstone::ops {
namespace {

bool is_vector(const TensorView& view, std::int64_t size) {
  return view.shape == Shape{size} && view.type == ScalarType::kI32 && view.row_stride == 1;
}

bool is_records(const TensorView& view, std::int64_t record_bytes) {
  return view.shape.rank() == 2 && view.shape[1] == record_bytes && view.type == ScalarType::kU8 &&
         view.contiguous();
}

void check_inputs(const SampleArgs& args) {
  const std::int64_t num_rows = args.logits.rows();
  INK_CHECK(args.logits.shape.rank() == 2 && args.logits.type == ScalarType::kF32, "logits are [S, V] f32");
  INK_CHECK(args.num_valid > 0 && args.num_valid <= args.logits.shape[1],
            "num_valid within the columns of logits");
  INK_CHECK(is_records(args.rules, sizeof(SampleRules)), "rules are [N, 64] u8");
  INK_CHECK(is_vector(args.rule_of_row, num_rows), "rule_of_row is [S] i32");
  INK_CHECK(is_vector(args.positions, num_rows), "positions is [S] i32");
  INK_CHECK(args.fed_tokens.empty() || is_vector(args.fed_tokens, num_rows), "fed_tokens is [S] i32");
  INK_CHECK(args.adjustments.empty() || is_records(args.adjustments, sizeof(TokenAdjustment)),
            "adjustments are [A, 16] u8");
  INK_CHECK(args.masks.shape.rank() == 2 && args.masks.type == ScalarType::kI32 && args.masks.rows() >= 1 &&
                args.masks.shape[1] == (args.num_valid + 31) / 32,
            "masks are [G, ceil(num_valid / 32)] i32");
}

void check_outputs(const SampleArgs& args) {
  const std::int64_t num_rows = args.logits.rows();
  INK_CHECK(is_vector(args.ids, num_rows), "ids is [S] i32");
  INK_CHECK(is_vector(args.faults, num_rows), "faults is [S] i32");
  INK_CHECK(args.logprobs.empty() ||
                (args.logprobs.shape == Shape{num_rows} && args.logprobs.type == ScalarType::kF32),
            "logprobs is [S] f32");
  INK_CHECK(args.top_ids.empty() == args.top_logprobs.empty(), "top_ids and top_logprobs come together");
  if (args.top_ids.empty()) return;
  INK_CHECK(args.top_ids.shape.rank() == 2 && args.top_ids.rows() == num_rows &&
                args.top_ids.type == ScalarType::kI32,
            "top_ids is [S, B] i32");
  INK_CHECK(args.top_logprobs.shape == args.top_ids.shape && args.top_logprobs.type == ScalarType::kF32,
            "top_logprobs is [S, B] f32");
}

}  // namespace

void check(const SampleArgs& args) {
  check_inputs(args);
  check_outputs(args);
  INK_CHECK(args.workspace.type == ScalarType::kU8 && args.workspace.contiguous(), "workspace is [bytes] u8");
  INK_CHECK(reinterpret_cast<std::uintptr_t>(args.workspace.data) % 8 == 0,
            "workspace is aligned to 8 bytes");
}

// The logits are the only large thing; per logit one exponential, one random word and two logarithms at most,
// counted as one operation each.
Cost cost(const SampleArgs& args) {
  const auto num_logits = static_cast<double>(args.logits.rows()) * static_cast<double>(args.num_valid);
  return {.flops = 4 * num_logits, .bytes = 4 * num_logits};
}

}  // namespace inkstone::ops
