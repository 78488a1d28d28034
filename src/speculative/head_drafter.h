// SPDX-License-Identifier: Apache-2.0
// speculative/head_drafter.h - the checkpoint's MTP heads as a drafter.
#pragma once

#include <memory>

#include "speculative/head_pass.h"

namespace inkstone::speculative {

// Drafts behind verify steps, whose hidden rows lie in the "mtp.hidden" rings. The rows of prompts run with
// their step: pass() serves whoever runs the steps. `cache` holds storage and the whole page table; stream
// and parts outlive the drafter.
class HeadDrafter final : public Drafter {
 public:
  HeadDrafter(std::unique_ptr<HeadPass> pass, model::CacheView cache, std::int64_t depths,
              ops::Backend& backend, ops::Stream& stream)
      : pass_(std::move(pass)),
        cache_(std::move(cache)),
        depths_(depths),
        backend_(backend),
        stream_(stream) {}

  [[nodiscard]] std::int64_t max_depth() const override { return depths_; }
  [[nodiscard]] bool keeps_state() const override { return true; }
  Status draft(std::span<const DraftRequest> requests, std::vector<Drafts>& drafts) override;

  [[nodiscard]] HeadPass& pass() { return *pass_; }

 private:
  std::unique_ptr<HeadPass> pass_;
  model::CacheView cache_;
  std::int64_t depths_;
  ops::Backend& backend_;
  ops::Stream& stream_;
  std::vector<HeadRows> rows_;
};

}  // namespace inkstone::speculative
