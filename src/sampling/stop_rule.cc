// SPDX-License-Identifier: Apache-2.0
#include "sampling/stop_rule.h"

#include <algorithm>

#include "base/check.h"

namespace inkstone::sampling {
namespace {

bool contains(const std::vector<std::int32_t>& ids, std::int32_t id) {
  return std::ranges::find(ids, id) != ids.end();
}

}  // namespace

StopRule::StopRule(const SamplingParams& params, std::span<const std::int32_t> end_ids,
                   std::int64_t max_tokens)
    : stop_ids_(params.stop_token_ids), min_tokens_(params.min_tokens), max_tokens_(max_tokens) {
  INK_CHECK(max_tokens >= 1, "an answer has room for one token");
  if (!params.ignore_eos) end_ids_.assign(end_ids.begin(), end_ids.end());
}

std::optional<StopReason> StopRule::after(std::int32_t id, std::int64_t num_generated) const {
  if (num_generated > min_tokens_) {
    if (contains(end_ids_, id)) return StopReason::kEndToken;
    if (contains(stop_ids_, id)) return StopReason::kStopToken;
  }
  if (num_generated >= max_tokens_) return StopReason::kLength;
  return std::nullopt;
}

std::vector<std::int32_t> StopRule::ending_ids() const {
  std::vector<std::int32_t> ids = end_ids_;
  ids.insert(ids.end(), stop_ids_.begin(), stop_ids_.end());
  return ids;
}

}  // namespace inkstone::sampling
