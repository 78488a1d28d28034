// SPDX-License-Identifier: Apache-2.0
// sampling/stop_rule.h - when an answer ends, judged by ids and counts alone (chat.md 3.6). Stop strings act
// on text: text/stop_strings.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sampling/params.h"

namespace inkstone::sampling {

enum class StopReason {
  kEndToken,   // an end id of the model: "stop"
  kStopToken,  // one of the request's stop_token_ids: "stop"
  kLength,     // max_tokens are drawn: "length"
};

// Immutable; any thread.
class StopRule {
 public:
  // `end_ids`: the model's. `max_tokens`: what the request allows and the context has room for, at least 1.
  StopRule(const SamplingParams& params, std::span<const std::int32_t> end_ids, std::int64_t max_tokens);

  // For the token just drawn, the `num_generated`-th of the answer, itself counted. A token that ends the
  // answer at its last allowed place counts as an end, not as too long.
  [[nodiscard]] std::optional<StopReason> after(std::int32_t id, std::int64_t num_generated) const;

  // The ids that end the answer; before min_tokens none of them is drawn.
  [[nodiscard]] std::vector<std::int32_t> ending_ids() const;
  [[nodiscard]] std::int64_t min_tokens() const { return min_tokens_; }
  [[nodiscard]] std::int64_t max_tokens() const { return max_tokens_; }

 private:
  std::vector<std::int32_t> end_ids_;  // empty under ignore_eos
  std::vector<std::int32_t> stop_ids_;
  std::int64_t min_tokens_;
  std::int64_t max_tokens_;
};

}  // namespace inkstone::sampling
