// SPDX-License-Identifier: Apache-2.0
// speculative/lookup_drafter.h - prompt look-up: what followed the last words when they stood in the sequence
// before.
#pragma once

#include "speculative/drafter.h"

namespace inkstone::speculative {

// Takes the longest suffix of 2 to 8 tokens that occurs earlier and drafts what followed its latest
// occurrence. Needs no heads and no state; good where answers copy from the prompt.
class LookupDrafter final : public Drafter {
 public:
  explicit LookupDrafter(std::int64_t max_depth) : max_depth_(max_depth) {}
  [[nodiscard]] std::int64_t max_depth() const override { return max_depth_; }
  Status draft(std::span<const DraftRequest> requests, std::vector<Drafts>& drafts) override;

 private:
  std::int64_t max_depth_;
};

}  // namespace inkstone::speculative
