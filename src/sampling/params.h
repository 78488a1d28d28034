// SPDX-License-Identifier: Apache-2.0
// sampling/params.h - what one request asks of sampling, as the user wrote it, and whether it may be asked.
// Fields and defaults: multimodal.md 6.2, chat.md 5.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"

namespace inkstone::sampling {

// At and below this temperature the draw is greedy. Two logits that differ by 0.05 are then 50 noise units
// apart, which no drawn noise bridges: people who write 1e-3 or 1e-30 mean "greedy", and get exactly that
// (cases.md B41).
inline constexpr double kGreedyTemperature = 1e-3;

struct SamplingParams {
  double temperature = 1;  // 0: greedy
  std::int64_t top_k = 0;  // 0 and -1: off
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;  // counts prompt and answer; the other two count the answer only
  double presence_penalty = 0;
  double frequency_penalty = 0;
  std::vector<std::pair<std::int32_t, double>> logit_bias{};  // each id at most once, in any order

  std::optional<std::uint64_t> seed{};  // the caller fills in random_seed() before sampling starts
  std::uint32_t choice = 0;             // which of the request's n answers; each has noise of its own

  std::optional<std::int64_t> max_tokens{};  // none: the rest of the context
  std::int64_t min_tokens = 0;               // no end id and no stop id is drawn before
  std::vector<std::int32_t> stop_token_ids{};
  bool ignore_eos = false;

  std::optional<std::int64_t> logprobs{};  // none, or how many alternatives beside the drawn token, 0..20
};

// One message that starts with the field at fault. `num_valid`: ids that logits are valid for.
Status validate(const SamplingParams& params, std::int64_t num_valid);

// A seed for requests that name none. Thread-safe.
std::uint64_t random_seed();

}  // namespace inkstone::sampling
