// SPDX-License-Identifier: Apache-2.0
// speculative/head_drafter.h - the checkpoint's MTP heads as a drafter.
#pragma once

#include <memory>

#include "speculative/draft_chain.h"
#include "speculative/head_pass.h"

namespace inkstone::speculative {

// Drafts behind verify steps, whose hidden rows lie in the "mtp.hidden" rings. The rows of prompts run with
// their step: pass() serves whoever runs the steps, and so does chain(), which is null where operations run
// when they are called: nothing is saved by it there. `cache` holds storage and the whole page table; stream
// and parts outlive the drafter.
class HeadDrafter final : public Drafter {
 public:
  struct Parts {
    std::unique_ptr<HeadPass> pass;
    std::unique_ptr<DraftChain> chain;
    model::CacheView cache;
    std::int64_t depths = 0;
    bool records = false;
  };

  HeadDrafter(Parts parts, ops::Backend& backend, ops::Stream& stream)
      : parts_(std::move(parts)), backend_(backend), stream_(stream) {}

  [[nodiscard]] std::int64_t max_depth() const override { return parts_.depths; }
  [[nodiscard]] bool keeps_state() const override { return true; }
  Status draft(std::span<const DraftRequest> requests, std::vector<Drafts>& drafts) override;

  [[nodiscard]] HeadPass& pass() { return *parts_.pass; }
  [[nodiscard]] DraftChain* chain() { return parts_.chain.get(); }
  [[nodiscard]] std::int64_t first_runs() const { return recordings_.first_runs(); }

 private:
  [[nodiscard]] bool fit_windows(std::span<const DraftRequest> requests);
  Status run_chain(std::vector<Drafts>& drafts);

  Parts parts_;
  ops::Backend& backend_;
  ops::Stream& stream_;
  ops::Recordings recordings_;
  std::vector<HeadRows> rows_;
  std::vector<WindowRequest> windows_;
  std::vector<std::size_t> asked_;   // request of each window
  std::vector<WindowDrafts> drawn_;  // by window
};

}  // namespace inkstone::speculative
