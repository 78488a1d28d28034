// SPDX-License-Identifier: Apache-2.0
// server/answer/scored_prompt.h - log-probabilities of a prompt's own tokens: all but the first are computed
// as if they were drawn, with every other token forbidden. Exact, one step per token.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/submission.h"

namespace inkstone::server {

// Turns a submission into one whose answer begins with the tokens of its prompt behind the first; they end
// nothing, whatever they are. What ends the real answer is judged by ends_answer alone: the outcome has no
// stop_id. `submission` has a prompt and parameters that count no tokens of the answer (no penalties of
// presence and frequency, no min_tokens), max_tokens, and no constraint. `vocabulary`: ids that logits are
// for.
void score_prompt(engine::Submission& submission, std::int64_t vocabulary);

}  // namespace inkstone::server
