// SPDX-License-Identifier: Apache-2.0
// cache/memory_plan.h - what a number of sequences takes in memory, from the state specification alone.
#pragma once

#include <string>
#include <vector>

#include "model/state_spec.h"

namespace inkstone::cache {

// All groups of one kind: equal window, and of the trunk or of heads that look ahead.
struct StatePart {
  std::string name;  // "full KV", "window of 512", "heads: window of 4"
  std::int64_t window = 0;
  bool looks_ahead = false;
  std::int64_t groups = 0;
  std::int64_t bytes = 0;  // of one rank, all sequences together
};

struct StatePlan {
  std::vector<StatePart> parts;  // in order of the specification
  std::int64_t bytes = 0;        // of one rank on the device
  // Of one rank in host memory: one window checkpoint with the page rows that it may own.
  std::int64_t checkpoint_bytes = 0;
};

// `tokens`: in pages, all sequences together (rounded up to pages); `sequences`: rings.
StatePlan plan_state(const model::StateSpec& spec, std::int64_t tokens, std::int64_t sequences);

// One rank's share of weights: tensors of many rows are divided among the ranks, vectors and the router are
// not.
struct WeightTensor {
  std::int64_t bytes = 0;
  bool divided = true;
};
std::int64_t weight_share(const std::vector<WeightTensor>& tensors, std::int64_t ranks);

}  // namespace inkstone::cache
