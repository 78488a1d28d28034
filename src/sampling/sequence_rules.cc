// SPDX-License-Identifier: Apache-2.0
#include "sampling/sequence_rules.h"

#include <algorithm>
#include <limits>

namespace inkstone::sampling {
namespace {

ops::SampleRules to_rules(const SamplingParams& params, std::int64_t prompt_tokens) {
  INK_CHECK(params.seed.has_value(), "the caller chooses a seed where the request names none");
  constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
  ops::SampleRules rules;
  rules.seed = *params.seed;
  rules.choice = params.choice;
  rules.temperature = params.temperature <= kGreedyTemperature ? 0 : static_cast<float>(params.temperature);
  rules.top_k = static_cast<std::int32_t>(std::clamp<std::int64_t>(params.top_k, 0, kMaxInt));
  rules.top_p = static_cast<float>(params.top_p);
  rules.min_p = static_cast<float>(params.min_p);
  rules.repetition_penalty = static_cast<float>(params.repetition_penalty);
  rules.presence_penalty = static_cast<float>(params.presence_penalty);
  rules.frequency_penalty = static_cast<float>(params.frequency_penalty);
  rules.num_top = static_cast<std::int32_t>(params.logprobs.value_or(-1));
  rules.min_position = static_cast<std::int32_t>(std::min(prompt_tokens + params.min_tokens, kMaxInt));
  return rules;
}

bool needs_prompt(const SamplingParams& params) { return params.repetition_penalty != 1; }

bool needs_answer(const SamplingParams& params) {
  return needs_prompt(params) || params.presence_penalty != 0 || params.frequency_penalty != 0;
}

std::vector<std::int32_t> distinct(std::span<const std::int32_t> ids) {
  std::vector<std::int32_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

}  // namespace

SequenceRules::SequenceRules(const SamplingParams& params, std::span<const std::int32_t> ending_ids,
                             std::span<const std::int32_t> prompt)
    : rules_(to_rules(params, static_cast<std::int64_t>(prompt.size()))) {
  if (needs_prompt(params))
    for (const std::int32_t id : distinct(prompt)) list_.push_back({.id = id, .flags = ops::kSeenToken});
  if (needs_answer(params)) rules_.history_end = static_cast<std::int32_t>(prompt.size());
  for (const auto& [id, bias] : params.logit_bias) entry(id).bias = static_cast<float>(bias);
  if (params.min_tokens > 0)
    for (const std::int32_t id : ending_ids) entry(id).flags |= ops::kEndToken;
  rules_.adjust_end = static_cast<std::int32_t>(list_.size());
}

ops::TokenAdjustment& SequenceRules::entry(std::int32_t id) {
  auto at = std::ranges::lower_bound(list_, id, {}, &ops::TokenAdjustment::id);
  if (at == list_.end() || at->id != id) at = list_.insert(at, {.id = id});
  return *at;
}

void SequenceRules::append(std::span<const std::int32_t> accepted) {
  if (!counts_answer()) return;
  for (const std::int32_t id : accepted) {
    ops::TokenAdjustment& counted = entry(id);
    counted.generated += 1;
    counted.flags |= ops::kSeenToken;
  }
  rules_.history_end += static_cast<std::int32_t>(accepted.size());
  rules_.adjust_end = static_cast<std::int32_t>(list_.size());
}

}  // namespace inkstone::sampling
