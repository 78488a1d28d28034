// SPDX-License-Identifier: Apache-2.0
// scheduler/scheduler.h - station 5 of docs/journey.md: who advances by how many tokens in the next step.
// Takes views of all sequences and the free capacity; the plan goes to the cache and to engine/batch_builder.
#pragma once

#include <span>

#include "base/result.h"
#include "scheduler/step_plan.h"

namespace inkstone::scheduler {

// The rules, in order:
//   1. Every running sequence past its prompt gets its row and its drafts. Where pages run out, nobody gets
//   drafts;
//      where they still do, running sequences are preempted: the lowest priority first, among equals the one
//      admitted last.
//   2. Prompts take what is left of the budget, in order of admission. A chunk ends at a multiple of 64
//   unless
//      it ends the prompt, meets a wanted checkpoint, or the chunk limit is smaller than that.
//   3. Waiting and swapped sequences are admitted in order of priority, then arrival. The first that does not
//   fit
//      ends the admission, so nobody is overtaken for ever. Admission keeps room for what the running ones
//      still need of their prompts and for the start of their answers; with nobody running it asks for the
//      first chunk only.
// `order` lists the views that may be admitted, sorted by admits_before. A pure function: the same arguments
// give the same plan, and `plan` is only memory to be used again.
void plan_step(std::span<const SequenceView> views, std::span<const std::int32_t> running,
               std::span<const std::int32_t> order, const Capacity& capacity, const Limits& limits,
               StepPlan& plan);

[[nodiscard]] bool admits_before(const SequenceView& a, const SequenceView& b);

// Whether a request can ever run. `max_tokens` < 0: as many as fit. Gives the most tokens that prompt and
// answer may have together, or an error that names the numbers.
struct RequestSize {
  std::int64_t prompt_tokens = 0;
  std::int64_t max_tokens = -1;
};
Result<std::int64_t> most_tokens(const RequestSize& request, std::int64_t context_tokens,
                                 std::int64_t pool_tokens);

// Whether these limits let every running sequence advance in each step.
Status check(const Limits& limits, std::int64_t slots, std::int64_t rows_per_decode);

}  // namespace inkstone::scheduler
