// SPDX-License-Identifier: Apache-2.0
// The table of contents of a step: stations 5 to 12 of docs/journey.md.
#include "engine/step_loop.h"

namespace inkstone::engine {

Result<bool> StepLoop::step() {
  drop_cancelled();
  match_waiting();
  INK_TRY(encoder_.run());
  look_at_sequences();
  scheduler::plan_step(views_, running_, candidates_, capacity(), options_.scheduling(), plan_);
  preempt();
  admit();
  reserve_pages();
  const bool has_rows = !plan_.rows.empty();
  if (has_rows) INK_TRY(enqueue());
  const std::int64_t in_flight = enqueued_steps_ - collected_steps_;
  if (in_flight > (has_rows ? runner_.steps_ahead() : 0)) INK_TRY(collect());
  return !running_.empty() || !waiting_.empty() || enqueued_steps_ > collected_steps_;
}

}  // namespace inkstone::engine
