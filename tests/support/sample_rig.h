// SPDX-License-Identifier: Apache-2.0
// tests/support/sample_rig.h - host arrays for one call of ops/sample.h, and the contract written down
// naively.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "ops/noise.h"
#include "ops/sample.h"

namespace inkstone::test {

// Fill in the members, run, read the results. Masks other than row 0 and wider logits are up to the test.
struct SampleRig {
  SampleRig(std::int64_t rows, std::int64_t valid, std::int64_t columns = 0)
      : num_rows(rows),
        num_valid(valid),
        width(std::max(valid, columns)),
        logits(static_cast<std::size_t>(rows * width), 0),
        rules(static_cast<std::size_t>(rows)),
        rule_of_row(static_cast<std::size_t>(rows)),
        positions(static_cast<std::size_t>(rows), 0),
        masks(words(), 0),
        ids(static_cast<std::size_t>(rows), -7),
        faults(static_cast<std::size_t>(rows), -7),
        logprobs(static_cast<std::size_t>(rows), -7),
        top_ids(static_cast<std::size_t>(rows * ops::kMaxTopLogprobs), -7),
        top_logprobs(static_cast<std::size_t>(rows * ops::kMaxTopLogprobs), -7) {
    for (std::size_t i = 0; i < rule_of_row.size(); ++i) rule_of_row[i] = static_cast<std::int32_t>(i);
  }

  [[nodiscard]] std::size_t words() const { return static_cast<std::size_t>((num_valid + 31) / 32); }
  float& logit(std::int64_t row, std::int64_t id) {
    return logits[static_cast<std::size_t>(row * width + id)];
  }
  void forbid(std::int32_t id, std::size_t mask = 0) {
    masks.resize(std::max(masks.size(), (mask + 1) * words()), 0);
    masks[mask * words() + static_cast<std::size_t>(id / 32)] |= 1U << (id % 32);
  }

  // Views of the members; the workspace as large as the backend asks.
  ops::SampleArgs arguments(std::int64_t workspace_bytes) {
    workspace.resize(static_cast<std::size_t>(workspace_bytes));
    ops::SampleArgs args;
    args.logits = {logits.data(), ScalarType::kF32, {num_rows, width}};
    args.num_valid = num_valid;
    args.rules = {rules.data(), ScalarType::kU8, {size(rules), sizeof(ops::SampleRules)}};
    args.rule_of_row = vector(rule_of_row);
    args.positions = vector(positions);
    if (!fed_tokens.empty()) args.fed_tokens = vector(fed_tokens);
    if (!list.empty())
      args.adjustments = {list.data(), ScalarType::kU8, {size(list), sizeof(ops::TokenAdjustment)}};
    args.masks = {masks.data(), ScalarType::kI32, {size(masks) / size_of_row(), size_of_row()}};
    args.ids = vector(ids);
    args.faults = vector(faults);
    args.logprobs = {logprobs.data(), ScalarType::kF32, {num_rows}};
    args.top_ids = {top_ids.data(), ScalarType::kI32, {num_rows, ops::kMaxTopLogprobs}};
    args.top_logprobs = {top_logprobs.data(), ScalarType::kF32, {num_rows, ops::kMaxTopLogprobs}};
    args.workspace = {workspace.data(), ScalarType::kU8, {workspace_bytes}};
    return args;
  }

  std::int64_t num_rows;
  std::int64_t num_valid;
  std::int64_t width;
  std::vector<float> logits;
  std::vector<ops::SampleRules> rules;
  std::vector<std::int32_t> rule_of_row;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> fed_tokens;
  std::vector<ops::TokenAdjustment> list;
  std::vector<std::uint32_t> masks;
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> faults;
  std::vector<float> logprobs;
  std::vector<std::int32_t> top_ids;
  std::vector<float> top_logprobs;
  std::vector<std::byte> workspace;

 private:
  template <class T>
  static std::int64_t size(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size());
  }
  static TensorView vector(std::vector<std::int32_t>& values) {
    return {values.data(), ScalarType::kI32, {size(values)}};
  }
  [[nodiscard]] std::int64_t size_of_row() const { return static_cast<std::int64_t>(words()); }
};

// ---- the contract, naively: sort everything, skip nothing

struct NaiveCandidate {
  float x;
  std::int32_t id;
};

// Step 1 for one logit; `seen` in prompt or answer, `generated` occurrences in the answer.
inline float naive_adjusted(float logit, const ops::SampleRules& rules, bool seen, int generated,
                            float bias) {
  if (seen) logit = logit > 0 ? logit / rules.repetition_penalty : logit * rules.repetition_penalty;
  if (generated > 0) {
    logit -= rules.frequency_penalty * static_cast<float>(generated);
    logit -= rules.presence_penalty;
  }
  return logit + bias;
}

// Steps 3 and 4 over adjusted logits (-infinity = forbidden): what is kept, best first.
inline std::vector<NaiveCandidate> naive_kept(const std::vector<float>& adjusted,
                                              const ops::SampleRules& rules) {
  const float best = *std::ranges::max_element(adjusted);
  std::vector<NaiveCandidate> kept;
  for (std::size_t id = 0; id < adjusted.size(); ++id)
    if (!std::isinf(adjusted[id]))
      kept.push_back({(adjusted[id] - best) / rules.temperature, static_cast<std::int32_t>(id)});
  std::ranges::sort(kept, [](const NaiveCandidate& a, const NaiveCandidate& b) {
    return a.x > b.x || (a.x == b.x && a.id < b.id);
  });
  if (rules.top_k > 0 && kept.size() > static_cast<std::size_t>(rules.top_k))
    kept.resize(static_cast<std::size_t>(rules.top_k));
  const auto mass = [](float x) { return static_cast<std::uint64_t>(std::exp(x) * 0x1p40F); };
  std::uint64_t whole = 0;
  for (const NaiveCandidate& candidate : kept) whole += mass(candidate.x);
  if (rules.top_p < 1) {
    const auto amount =
        static_cast<std::uint64_t>(std::ceil(double{rules.top_p} * static_cast<double>(whole)));
    std::uint64_t sum = 0;
    std::size_t length = 0;
    do sum += mass(kept[length++].x);
    while (sum < amount && length < kept.size());
    kept.resize(length);
  }
  std::erase_if(kept, [&](const NaiveCandidate& candidate) { return std::exp(candidate.x) < rules.min_p; });
  return kept;
}

// Step 5.
inline std::int32_t naive_draw(const std::vector<float>& adjusted, const ops::SampleRules& rules,
                               std::int32_t position) {
  if (rules.temperature == 0)
    return static_cast<std::int32_t>(std::ranges::max_element(adjusted) - adjusted.begin());
  const ops::NoiseKey key{rules.seed, rules.choice, static_cast<std::uint32_t>(position)};
  float best = -std::numeric_limits<float>::infinity();
  std::int32_t winner = std::numeric_limits<std::int32_t>::max();
  for (const NaiveCandidate& candidate : naive_kept(adjusted, rules)) {
    const auto id = static_cast<std::uint32_t>(candidate.id);
    const std::uint32_t word = ops::noise_block(key, id / 4, 0).words[id % 4];
    const float sum = candidate.x - std::log(-std::log1p(-ops::noise_uniform(key, id, word)));
    if (sum < best || (sum == best && candidate.id > winner)) continue;
    best = sum;
    winner = candidate.id;
  }
  return winner;
}

}  // namespace inkstone::test
