// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "speculative/acceptance.h"

namespace inkstone::engine {
namespace {

Result<std::int64_t> parse_depth(std::string_view text) {
  std::int64_t depth = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), depth);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (!whole || depth < 0 || depth > speculative::kMaxDepth)
    return invalid(fmt::format("--speculate is 0 to {} or auto, not \"{}\"", speculative::kMaxDepth, text));
  return depth;
}

}  // namespace

double steady_clock_us() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Status set_speculation(std::string_view depth, std::string_view drafter, std::int64_t num_heads,
                       EngineOptions& options) {
  if (drafter != "heads" && drafter != "lookup")
    return invalid(fmt::format("--drafter is heads or lookup, not \"{}\"", drafter));
  options.drafter = drafter == "heads" ? DrafterKind::kHeads : DrafterKind::kLookup;
  options.adaptive_depth = depth == "auto";
  const std::int64_t most = drafter == "heads" ? num_heads : speculative::kMaxDepth;
  options.draft_rows =
      options.adaptive_depth ? std::min(most, speculative::kMaxDepth) : INK_TRY(parse_depth(depth));
  if (options.draft_rows <= most) return {};
  return invalid(fmt::format("--speculate {} needs as many MTP heads; the checkpoint has {}",
                             options.draft_rows, num_heads));
}

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
