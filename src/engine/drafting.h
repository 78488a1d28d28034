// SPDX-License-Identifier: Apache-2.0
// engine/drafting.h - what the loop remembers of one request for the sake of drafts.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/submission.h"
#include "speculative/acceptance.h"
#include "speculative/drafter.h"
#include "speculative/past_answers.h"

namespace inkstone::engine {

struct Drafting {
  speculative::Drafts drafts;  // behind the newest token, to be verified by the next step
  std::int64_t right = 0;      // of those that the last step verified
  std::int64_t head_rows = 0;  // rows that the heads have, provisional ones included
  std::int64_t depths = 0;     // heads that have all of them; never rises while a request runs
  double idle_us = 0;  // what depths have cost since all of them were last chosen, without being chosen
  std::int64_t low_depths = 0;    // most that were chosen since then
  bool gives_up = false;          // the others, from the next round on
  std::int64_t trial_rounds = 0;  // left, in which it drafts with all depths whatever pays
  speculative::AcceptanceEstimate acceptance;
  speculative::AnswerDrafts answer;  // for `auto`
  Speculation counts;
};

}  // namespace inkstone::engine
