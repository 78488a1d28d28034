// SPDX-License-Identifier: Apache-2.0
// tests/scenario/cache_rule_breaker.h - breaks rules of the cache from outside, for broken controls.
#pragma once

#include <span>
#include <vector>

#include "cache/cache_manager.h"

namespace inkstone::cache {

class CacheRuleBreaker {
 public:
  explicit CacheRuleBreaker(CacheManager& cache) : cache_(cache) {}

  // Publishes what a step in flight has written as if its drafts were verified. Gives the text of a page that
  // was published so; empty when no page was full.
  std::vector<TokenKey> publish_unverified(SlotId slot, std::span<const TokenKey> drafts) {
    for (auto& entry : cache_.sequences_) {
      CacheManager::Sequence& sequence = *entry;
      if (sequence.life != CacheManager::Life::kRunning || sequence.slot != slot) continue;
      const auto verified = sequence.tokens.size();
      const auto published = sequence.page_keys.size();
      sequence.tokens.insert(sequence.tokens.end(), drafts.begin(), drafts.end());
      cache_.publish_final_pages(sequence);
      std::vector<TokenKey> text;
      if (sequence.page_keys.size() > published) text = sequence.tokens;
      sequence.tokens.resize(verified);
      return text;
    }
    return {};
  }

  // Gives up the references of those that wait with a match, as if they were taken later ...
  void drop_references() {
    for (auto& sequence : cache_.sequences_) {
      if (sequence->life != CacheManager::Life::kMatched) continue;
      for (const PageId page : sequence->pages) cache_.pool_.release(page);
      late_.push_back(sequence.get());
      late_pages_.push_back(sequence->pages);
    }
  }
  // ... namely now, when others have allocated.
  void take_references() {
    for (std::size_t i = 0; i < late_.size(); ++i)
      for (const PageId page : late_pages_[i]) cache_.pool_.add_reference(page);
    late_.clear();
    late_pages_.clear();
  }

 private:
  CacheManager& cache_;
  std::vector<CacheManager::Sequence*> late_;
  std::vector<std::vector<PageId>> late_pages_;
};

}  // namespace inkstone::cache
