// SPDX-License-Identifier: Apache-2.0
// cache/ids.h - names of the places where state lies, and of the sequences that own it.
#pragma once

#include <cstdint>

#include "base/strong_id.h"

namespace inkstone::cache {

using PageId = StrongId<struct PageTag>;              // 64 tokens of all paged groups
using SlotId = StrongId<struct SlotTag>;              // one ring of every windowed group
using HostPageId = StrongId<struct HostPageTag>;      // a page's rows in host memory
using HostWindowId = StrongId<struct HostWindowTag>;  // the last rows of all rings in host memory
using CheckpointId = StrongId<struct CheckpointTag>;
using SequenceId = StrongId<struct SequenceTag>;  // an entry of the cache manager

inline constexpr std::int64_t kPageTokens = 64;
constexpr std::int64_t pages_for(std::int64_t tokens) { return (tokens + kPageTokens - 1) / kPageTokens; }
constexpr std::int64_t page_floor(std::int64_t position) { return position / kPageTokens * kPageTokens; }

}  // namespace inkstone::cache
