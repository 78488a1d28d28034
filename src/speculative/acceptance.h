// SPDX-License-Identifier: Apache-2.0
// speculative/acceptance.h - judging drafts: a draft is right when plain sampling draws it (`architecture.md`
// 5).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace inkstone::speculative {

inline constexpr std::int64_t kMaxDepth = 8;

// The rows of a verify step were fed with the newest known token and the drafts; `drawn[i]` is what plain
// sampling draws behind row i, so draft i is accepted while it equals drawn[i], and the first difference is
// itself the next token. Gives the number of accepted drafts, 0 .. drafts.size(); drawn[0 .. accepted] are
// the tokens of the step. drawn.size() == drafts.size() + 1.
std::int64_t num_accepted(std::span<const std::int32_t> drafts, std::span<const std::int32_t> drawn);

// Running estimate: of the drafts at depth i whose predecessors were all accepted, which share was. The
// newest `memory` observations of a depth count for most of it, fewer at the start. Not thread-safe.
class AcceptanceEstimate {
 public:
  explicit AcceptanceEstimate(double memory = 80) : memory_(memory) {}
  // For a sequence of its own among many: starts where they are, and is soon convinced of something else.
  static AcceptanceEstimate like(const AcceptanceEstimate& others);

  void observe(std::int64_t drafted, std::int64_t accepted);
  // A depth of which little was seen is taken to be like the one before it: what is never drafted so deep
  // could not show otherwise that it pays.
  [[nodiscard]] double rate(std::int64_t depth) const;

 private:
  static constexpr double kPrior = 0.8;  // of the first, before anything was seen
  static constexpr double kPriorWeight = 4;
  static constexpr double kLikeWeight = 40;

  void observe_at(std::int64_t depth, double accepted);

  double memory_;
  std::array<double, kMaxDepth> rates_{};  // as seen
  std::array<double, kMaxDepth> weights_{};
};

// Tokens that a verify step with n drafts is expected to emit: 1 + sum over i of the product of the first i
// rates.
double expected_tokens(const AcceptanceEstimate& estimate, std::int64_t num_drafts);

}  // namespace inkstone::speculative
