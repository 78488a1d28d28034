// SPDX-License-Identifier: Apache-2.0
// text/byte_pair.h - byte-pair encoding of one piece of text (pieces come from text/pretokenizer.h).
// The adjacent pair whose joined bytes have the lowest rank is merged first, the leftmost among equals, until
// no pair is a token.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/rank_table.h"

namespace inkstone::text {

// Appends the ids of `piece` (not empty, below 4 GiB); every single byte must be a token.
void encode_piece(const RankTable& ranks, std::string_view piece, std::vector<std::int32_t>& out);

// The two ways of merging give the same ids. The scan costs the square of the length but is quickest for
// words; the queue costs n log n.
inline constexpr std::size_t kLongestScannedPiece = 128;
void merge_by_scan(const RankTable& ranks, std::string_view piece, std::vector<std::int32_t>& out);
void merge_by_queue(const RankTable& ranks, std::string_view piece, std::vector<std::int32_t>& out);

}  // namespace inkstone::text
