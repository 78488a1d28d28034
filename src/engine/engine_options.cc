// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_options.h"

#include <algorithm>

namespace inkstone::engine {

cache::CacheLimits cache_limits(const model::StateSpec& spec, const EngineOptions& options) {
  const cache::StateLayout layout(spec);
  cache::CacheLimits limits;
  const std::int64_t tokens = options.cache_tokens > 0 ? options.cache_tokens : options.max_context_tokens;
  limits.pages = cache::pages_for(tokens);
  limits.slots = options.max_sequences + options.spare_slots;
  // A checkpoint owns up to two pages; most own one.
  const std::int64_t checkpoint_bytes = layout.host_window_bytes + layout.host_page_bytes;
  const std::int64_t checkpoints = options.checkpoint_bytes / std::max<std::int64_t>(1, checkpoint_bytes);
  limits.host_windows = checkpoints;
  limits.host_pages = checkpoints + options.swap_bytes / std::max<std::int64_t>(1, layout.host_page_bytes);
  limits.poison = options.integrity_checks;
  return limits;
}

}  // namespace inkstone::engine
