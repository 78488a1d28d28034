// SPDX-License-Identifier: Apache-2.0
#include "text/byte_pair.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "text/pair_queue.h"

namespace inkstone::text {
namespace {

constexpr std::int32_t kNone = RankTable::kNone;

struct Part {
  std::uint32_t begin;
  std::int32_t pair_rank;  // of this part joined with the next one
};

// Parts of a long piece as a doubly linked list over byte positions: part `at` spans [at, next_[at]).
class PartList {
 public:
  PartList(const RankTable& ranks, std::string_view piece)
      : ranks_(ranks),
        piece_(piece),
        next_(piece.size()),
        previous_(piece.size()),
        pair_rank_(piece.size(), kNone) {
    for (std::uint32_t at = 0; at < piece.size(); ++at) {
      next_[at] = at + 1;
      previous_[at] = at - 1;  // of the first part: kNowhere
    }
    for (std::uint32_t at = 0; at < piece.size(); ++at) offer(at);
  }

  void merge_all() {
    while (!pairs_.empty()) {
      const PairQueue::Pair pair = pairs_.pop();
      // An entry is out of date when its part or its neighbour has been merged meanwhile.
      if (pair_rank_[pair.at] == pair.rank) merge(pair.at);
    }
  }

  void append_ids(std::vector<std::int32_t>& out) const {
    for (std::uint32_t at = 0; at < piece_.size(); at = next_[at])
      out.push_back(ranks_.find(span(at, next_[at])));
  }

 private:
  static constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] std::string_view span(std::uint32_t begin, std::uint32_t end) const {
    return piece_.substr(begin, end - begin);
  }

  // Ranks the pair that starts at `at`.
  void offer(std::uint32_t at) {
    const std::uint32_t middle = next_[at];
    pair_rank_[at] = middle < piece_.size() ? ranks_.find(span(at, next_[middle])) : kNone;
    if (pair_rank_[at] != kNone) pairs_.push({pair_rank_[at], at});
  }

  void merge(std::uint32_t at) {
    const std::uint32_t gone = next_[at];
    next_[at] = next_[gone];
    pair_rank_[gone] = kNone;
    if (next_[at] < piece_.size()) previous_[next_[at]] = at;
    offer(at);
    if (previous_[at] != kNowhere) offer(previous_[at]);
  }

  const RankTable& ranks_;
  std::string_view piece_;
  std::vector<std::uint32_t> next_;
  std::vector<std::uint32_t> previous_;
  std::vector<std::int32_t> pair_rank_;
  PairQueue pairs_;
};

}  // namespace

void encode_piece(const RankTable& ranks, std::string_view piece, std::vector<std::int32_t>& out) {
  const std::int32_t whole = ranks.find(piece);
  if (whole != kNone) {
    out.push_back(whole);
  } else if (piece.size() <= kLongestScannedPiece) {
    merge_by_scan(ranks, piece, out);
  } else {
    merge_by_queue(ranks, piece, out);
  }
}

void merge_by_scan(const RankTable& ranks, std::string_view piece, std::vector<std::int32_t>& out) {
  INK_CHECK(piece.size() <= kLongestScannedPiece);
  std::array<Part, kLongestScannedPiece + 1> parts;  // the last one marks the end of the piece
  std::size_t num_parts = piece.size();
  for (std::uint32_t at = 0; at <= num_parts; ++at) parts[at] = {at, kNone};
  const auto rank_pair = [&](std::size_t idx) {
    if (idx + 2 > num_parts) return kNone;
    return ranks.find(piece.substr(parts[idx].begin, parts[idx + 2].begin - parts[idx].begin));
  };
  for (std::size_t idx = 0; idx < num_parts; ++idx) parts[idx].pair_rank = rank_pair(idx);
  const auto by_rank = [](const Part& a, const Part& b) { return a.pair_rank < b.pair_rank; };
  while (true) {
    const auto best = std::min_element(parts.begin(), parts.begin() + num_parts, by_rank);
    if (best->pair_rank == kNone) break;
    std::copy(best + 2, parts.begin() + num_parts + 1, best + 1);
    --num_parts;
    const auto idx = static_cast<std::size_t>(best - parts.begin());
    parts[idx].pair_rank = rank_pair(idx);
    if (idx > 0) parts[idx - 1].pair_rank = rank_pair(idx - 1);
  }
  for (std::size_t idx = 0; idx < num_parts; ++idx) {
    out.push_back(ranks.find(piece.substr(parts[idx].begin, parts[idx + 1].begin - parts[idx].begin)));
  }
}

void merge_by_queue(const RankTable& ranks, std::string_view piece, std::vector<std::int32_t>& out) {
  INK_CHECK(piece.size() < std::numeric_limits<std::uint32_t>::max());
  PartList parts(ranks, piece);
  parts.merge_all();
  parts.append_ids(out);
}

}  // namespace inkstone::text
