// SPDX-License-Identifier: Apache-2.0
#include "speculative/lookup_drafter.h"

#include <algorithm>

namespace inkstone::speculative {
namespace {

constexpr std::size_t kShortest = 2;
constexpr std::size_t kLongest = 8;
constexpr std::size_t kSearched = 8192;  // most recent tokens that are searched: bounds the time of a call

// Length of the common suffix of tokens[0, end) and the whole, at most kLongest.
std::size_t suffix_length(std::span<const std::int32_t> tokens, std::size_t end) {
  std::size_t length = 0;
  while (length < kLongest && length < end && tokens[end - 1 - length] == tokens[tokens.size() - 1 - length])
    ++length;
  return length;
}

void draft_one(const DraftRequest& request, Drafts& drafts) {
  drafts.clear();
  const auto tokens = request.tokens.last(std::min(request.tokens.size(), kSearched));
  std::size_t best = 0;
  std::size_t best_end = 0;
  // Latest first, so that of equal lengths the most recent occurrence counts.
  for (std::size_t end = tokens.size() - std::min<std::size_t>(1, tokens.size()); end > 0 && best < kLongest;
       --end) {
    const std::size_t length = suffix_length(tokens, end);
    if (length > best) {
      best = length;
      best_end = end;
    }
  }
  if (best < kShortest) return;
  const std::size_t count = std::min(static_cast<std::size_t>(request.max_drafts), tokens.size() - best_end);
  const auto following = tokens.subspan(best_end, count);
  drafts.assign(following.begin(), following.end());
}

}  // namespace

Status LookupDrafter::draft(std::span<const DraftRequest> requests, std::vector<Drafts>& drafts) {
  drafts.resize(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) draft_one(requests[i], drafts[i]);
  return {};
}

}  // namespace inkstone::speculative
