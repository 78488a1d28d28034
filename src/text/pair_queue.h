// SPDX-License-Identifier: Apache-2.0
// text/pair_queue.h - the adjacent pairs of a long piece in the order in which byte-pair encoding merges
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <unordered_map>
#include <vector>

namespace inkstone::text {

// Adjacent pairs by rank, then by position. A plain heap of all pairs jumps about in memory; the pairs of one
// rank mostly come in order of position, so they are kept as a list, and only the distinct ranks need a heap.
class PairQueue {
 public:
  struct Pair {
    std::int32_t rank;
    std::uint32_t at;
  };

  [[nodiscard]] bool empty() const { return ranks_.empty(); }

  void push(Pair pair) {
    const auto [found, added] = bucket_of_rank_.try_emplace(pair.rank, buckets_.size());
    if (added) buckets_.emplace_back();
    Bucket& bucket = buckets_[found->second];
    if (bucket.empty()) ranks_.push(pair.rank);
    bucket.push(pair.at);
  }

  // The pair of lowest rank, the leftmost of them.
  Pair pop() {
    const std::int32_t rank = ranks_.top();
    Bucket& bucket = buckets_[bucket_of_rank_.find(rank)->second];
    const Pair pair = {rank, bucket.pop()};
    if (bucket.empty()) ranks_.pop();
    return pair;
  }

 private:
  class Bucket {
   public:
    [[nodiscard]] bool empty() const { return cursor_ == ordered_.size() && late_.empty(); }

    void push(std::uint32_t at) {
      if (cursor_ == ordered_.size()) {
        ordered_.clear();
        cursor_ = 0;
      }
      if (ordered_.empty() || at >= ordered_.back()) {
        ordered_.push_back(at);
      } else {
        late_.push(at);
      }
    }

    std::uint32_t pop() {
      if (cursor_ == ordered_.size() || (!late_.empty() && late_.top() < ordered_[cursor_])) {
        const std::uint32_t at = late_.top();
        late_.pop();
        return at;
      }
      return ordered_[cursor_++];
    }

   private:
    std::vector<std::uint32_t> ordered_;  // ascending; what is before cursor_ is gone
    std::size_t cursor_ = 0;
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>
        late_;  // came out of order
  };

  std::unordered_map<std::int32_t, std::size_t> bucket_of_rank_;
  std::vector<Bucket> buckets_;
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>>
      ranks_;  // of buckets that hold pairs
};

}  // namespace inkstone::text
