// SPDX-License-Identifier: Apache-2.0
// ops/stream.h - an ordered queue of operations on a device; host backends run each operation when it is
// called.
#pragma once

#include <cstdint>

namespace inkstone::ops {

// Used by one thread at a time. Operations of one stream take effect in the order of the calls.
class Stream {
 public:
  virtual ~Stream() = default;
  // Returns when every operation enqueued so far has taken effect.
  virtual void wait() = 0;
  // A point behind everything enqueued so far, and the wait for it: operations enqueued later may still run.
  // Where operations run when they are called, every point has passed.
  virtual std::uint64_t mark() { return 0; }
  virtual void wait_for(std::uint64_t /*mark*/) { wait(); }
};

}  // namespace inkstone::ops
