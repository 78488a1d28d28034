// SPDX-License-Identifier: Apache-2.0
#include "sampling/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>

#include "ops/sample.h"

namespace inkstone::sampling {
namespace {

// A user's temperature beyond this is a mistake: the distribution is flat long before.
constexpr double kMaxTemperature = 100;
constexpr double kMinRepetitionPenalty = 0.01;
constexpr double kMaxRepetitionPenalty = 100;
constexpr double kMaxPenalty = 2;
constexpr double kMaxBias = 100;
constexpr std::size_t kMaxListed = 1024;
constexpr std::int64_t kMaxTokens = (std::int64_t{1} << 31) - 1;

// NaN lies in no range.
Status in_range(std::string_view field, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return invalid(fmt::format("{} is {}, must be a number from {} to {}", field, value, low, high));
}

Status in_range(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid(fmt::format("{} is {}, must be from {} to {}", field, value, low, high));
}

Status not_too_many(std::string_view field, std::size_t count) {
  if (count <= kMaxListed) return {};
  return invalid(fmt::format("{} holds {} entries, at most {} are allowed", field, count, kMaxListed));
}

Status validate_filters(const SamplingParams& params) {
  INK_TRY(in_range("temperature", params.temperature, 0, kMaxTemperature));
  INK_TRY(in_range("top_k", params.top_k, -1, kMaxTokens));
  INK_TRY(in_range("top_p", params.top_p, 0, 1));
  return in_range("min_p", params.min_p, 0, 1);
}

Status validate_penalties(const SamplingParams& params) {
  INK_TRY(in_range("repetition_penalty", params.repetition_penalty, kMinRepetitionPenalty,
                   kMaxRepetitionPenalty));
  INK_TRY(in_range("presence_penalty", params.presence_penalty, -kMaxPenalty, kMaxPenalty));
  return in_range("frequency_penalty", params.frequency_penalty, -kMaxPenalty, kMaxPenalty);
}

Status validate_bias(const SamplingParams& params, std::int64_t num_valid) {
  INK_TRY(not_too_many("logit_bias", params.logit_bias.size()));
  std::vector<std::int32_t> ids;
  for (const auto& [id, bias] : params.logit_bias) {
    INK_TRY(in_range("logit_bias key", std::int64_t{id}, 0, num_valid - 1));
    INK_TRY(in_range(fmt::format("logit_bias of token {}", id), bias, -kMaxBias, kMaxBias));
    ids.push_back(id);
  }
  std::ranges::sort(ids);
  if (const auto twice = std::ranges::adjacent_find(ids); twice != ids.end())
    return invalid(fmt::format("logit_bias names token {} twice", *twice));
  return {};
}

Status validate_limits(const SamplingParams& params, std::int64_t num_valid) {
  const std::int64_t max_tokens = params.max_tokens.value_or(kMaxTokens);
  INK_TRY(in_range("max_tokens", max_tokens, 1, kMaxTokens));
  INK_TRY(in_range("min_tokens", params.min_tokens, 0, max_tokens));
  INK_TRY(not_too_many("stop_token_ids", params.stop_token_ids.size()));
  for (const std::int32_t id : params.stop_token_ids)
    INK_TRY(in_range("stop_token_ids entry", std::int64_t{id}, 0, num_valid - 1));
  return in_range("logprobs", params.logprobs.value_or(0), 0, ops::kMaxTopLogprobs);
}

}  // namespace

Status validate(const SamplingParams& params, std::int64_t num_valid) {
  INK_TRY(validate_filters(params));
  INK_TRY(validate_penalties(params));
  INK_TRY(validate_bias(params, num_valid));
  return validate_limits(params, num_valid);
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace inkstone::sampling
