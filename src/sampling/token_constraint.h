// SPDX-License-Identifier: Apache-2.0
// sampling/token_constraint.h - what a grammar tells sampling: which ids may follow the answer so far.
#pragma once

#include <cstdint>
#include <span>

namespace inkstone::sampling {

// One answer's. Used by one thread at a time, the engine's.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;
  // The ids that may not follow the accepted ones and `drafts`, as TokenMask::words(). Empty behind a draft
  // that may not stand where it stands: that row is not looked at. Valid as long as the constraint.
  virtual std::span<const std::uint32_t> mask_after(std::span<const std::int32_t> drafts) = 0;
  // The next token of the answer, which the mask allowed.
  virtual void accept(std::int32_t id) = 0;
};

}  // namespace inkstone::sampling
