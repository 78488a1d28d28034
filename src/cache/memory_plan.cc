// SPDX-License-Identifier: Apache-2.0
#include "cache/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "cache/ids.h"
#include "cache/state_layout.h"

namespace inkstone::cache {
namespace {

std::string name_of(const model::StateGroup& group) {
  const std::string kind = group.paged() ? "full KV" : fmt::format("window of {}", group.window);
  return group.lookahead > 0 ? "heads: " + kind : kind;
}

}  // namespace

StatePlan plan_state(const model::StateSpec& spec, std::int64_t tokens, std::int64_t sequences) {
  StatePlan plan;
  for (const model::StateGroup& group : spec.groups) {
    const bool looks_ahead = group.lookahead > 0;
    auto part = std::ranges::find_if(plan.parts, [&](const StatePart& known) {
      return known.window == group.window && known.looks_ahead == looks_ahead;
    });
    if (part == plan.parts.end())
      part = plan.parts.insert(part, {name_of(group), group.window, looks_ahead, 0, 0});
    const std::int64_t rows = group.paged() ? pages_for(tokens) * kPageTokens : sequences * group.ring_rows;
    const std::int64_t bytes = rows * group.bytes_per_token();
    part->groups += 1;
    part->bytes += bytes;
    plan.bytes += bytes;
  }
  const StateLayout layout(spec);
  plan.checkpoint_bytes = layout.host_window_bytes + 2 * layout.host_page_bytes;
  return plan;
}

std::int64_t weight_share(const std::vector<WeightTensor>& tensors, std::int64_t ranks) {
  std::int64_t share = 0;
  for (const WeightTensor& tensor : tensors)
    share += tensor.divided ? (tensor.bytes + ranks - 1) / ranks : tensor.bytes;
  return share;
}

}  // namespace inkstone::cache
