// SPDX-License-Identifier: Apache-2.0
// sampling/sequence_rules.h - a request's sampling rules bound to one sequence, with the token counts that
// penalties need.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/sample.h"
#include "sampling/params.h"

namespace inkstone::sampling {

// One owner at a time. Only requests with penalties pay for counting: every accepted token then costs a
// search in the list of distinct tokens, and the list is uploaded each step.
class SequenceRules {
 public:
  // `params` are valid and have a seed. `ending_ids`: StopRule::ending_ids(). A sequence that continues an
  // earlier answer (preempted and recomputed) keeps its object; the prompt is the request's own.
  SequenceRules(const SamplingParams& params, std::span<const std::int32_t> ending_ids,
                std::span<const std::int32_t> prompt);

  // Tokens that have become part of the answer. Drafts are not appended: the operation counts them itself.
  void append(std::span<const std::int32_t> accepted);

  // Valid until the next append. The list range is relative to adjustments().
  [[nodiscard]] const ops::SampleRules& rules() const { return rules_; }
  [[nodiscard]] std::span<const ops::TokenAdjustment> adjustments() const { return list_; }

 private:
  ops::TokenAdjustment& entry(std::int32_t id);
  [[nodiscard]] bool counts_answer() const { return rules_.history_end != ops::kNoHistory; }

  ops::SampleRules rules_;
  std::vector<ops::TokenAdjustment> list_;  // ids ascend
};

}  // namespace inkstone::sampling
