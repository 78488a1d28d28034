// SPDX-License-Identifier: Apache-2.0
#include "speculative/head_drafter.h"

namespace inkstone::speculative {

Status HeadDrafter::draft(std::span<const DraftRequest> requests, std::vector<Drafts>& drafts) {
  const auto turn = backend_.take_turn();
  rows_.clear();
  for (const DraftRequest& request : requests)
    rows_.push_back({.range = request.heads,
                     .own_begin = request.heads.end,
                     .trunk_row = 0,
                     .tokens = request.tokens,
                     .num_drafts = request.max_drafts});
  return pass_->run(rows_, {}, cache_, drafts, stream_);
}

}  // namespace inkstone::speculative
