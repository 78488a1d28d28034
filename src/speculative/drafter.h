// SPDX-License-Identifier: Apache-2.0
// speculative/drafter.h - station 11 of docs/journey.md, where drafts come from: the MTP heads, or the
// sequence's own past.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "speculative/head_rows.h"

namespace inkstone::speculative {

// One sequence that wants drafts behind its newest known token.
struct DraftRequest {
  std::span<const std::int32_t> tokens;  // all known tokens, prompt and answer, valid during the call
  std::int64_t max_drafts = 0;           // 0 .. max_depth()
  HeadRange heads;                       // for drafters that keep state; others do not look at it
};

// The drafts of one request: at most max_drafts tokens.
using Drafts = std::vector<std::int32_t>;

// A draft may be wrong, never harmful: the verify step draws what plain decoding would draw. Called on the
// engine's thread, when no step is in flight.
class Drafter {
 public:
  virtual ~Drafter() = default;
  [[nodiscard]] virtual std::int64_t max_depth() const = 0;
  // Whether it has rows of state for every position, which every request must bring up to date: one that
  // wants no drafts too, and prompts while they run.
  [[nodiscard]] virtual bool keeps_state() const { return false; }
  // Fills `drafts[i]` for requests[i].
  virtual Status draft(std::span<const DraftRequest> requests, std::vector<Drafts>& drafts) = 0;
};

}  // namespace inkstone::speculative
