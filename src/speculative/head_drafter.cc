// SPDX-License-Identifier: Apache-2.0
#include "speculative/head_drafter.h"

namespace inkstone::speculative {

// The windows of those whose heads run; false where one of them needs more than a window.
bool HeadDrafter::fit_windows(std::span<const DraftRequest> requests) {
  windows_.clear();
  asked_.clear();
  if (!parts_.chain || parts_.pass->has_override()) return false;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    if (request.heads.depths == 0) continue;
    windows_.push_back({.with_step = false,
                        .sequence = 0,
                        .fed_drafts = 0,
                        .tokens = request.tokens,
                        .num_drafts = request.max_drafts,
                        .heads = request.heads});
    asked_.push_back(i);
    const std::int64_t newest = static_cast<std::int64_t>(request.tokens.size()) - 1;
    if (request.heads.end != newest || !fits_window(windows_.back(), parts_.depths)) return false;
  }
  return !windows_.empty();
}

Status HeadDrafter::run_chain(std::vector<Drafts>& drafts) {
  DraftChain& chain = *parts_.chain;
  INK_TRY(chain.plan(windows_, parts_.records, stream_));
  const auto operations = [this] { parts_.chain->enqueue({}, parts_.cache, stream_); };
  if (parts_.records) {
    const auto shape = chain.shape();
    recordings_.run(backend_, {shape[0], shape[1], shape[2], shape[3], 0, 0}, chain.memory_version(), stream_,
                    operations);
  } else {
    operations();
  }
  chain.fetch(stream_);
  stream_.wait();
  chain.collect(drawn_);
  for (std::size_t i = 0; i < asked_.size(); ++i) drafts[asked_[i]] = drawn_[i].drafts;
  return {};
}

Status HeadDrafter::draft(std::span<const DraftRequest> requests, std::vector<Drafts>& drafts) {
  const auto turn = backend_.take_turn();
  drafts.assign(requests.size(), {});
  if (fit_windows(requests)) return run_chain(drafts);
  rows_.clear();
  for (const DraftRequest& request : requests)
    rows_.push_back({.range = request.heads,
                     .own_begin = request.heads.end,
                     .trunk_row = 0,
                     .tokens = request.tokens,
                     .num_drafts = request.max_drafts});
  return parts_.pass->run(rows_, {}, parts_.cache, drafts, stream_);
}

}  // namespace inkstone::speculative
