// SPDX-License-Identifier: Apache-2.0
#include "server/answer/scored_prompt.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace inkstone::server {
namespace {

// Masks of the tokens of a step and of those that are in the making; older ones are used again.
constexpr std::size_t kMasks = 64;

class ForcedTokens final : public sampling::TokenConstraint {
 public:
  ForcedTokens(std::vector<std::int32_t> ids, std::int64_t vocabulary)
      : ids_(std::move(ids)), free_(static_cast<std::size_t>((vocabulary + 31) / 32)) {}

  std::span<const std::uint32_t> mask_after(std::span<const std::int32_t> drafts) override {
    for (std::size_t idx = 0; idx < drafts.size() && accepted_ + idx < ids_.size(); ++idx)
      if (drafts[idx] != ids_[accepted_ + idx]) return {};
    const std::size_t at = accepted_ + drafts.size();
    if (at >= ids_.size()) return free_;
    std::vector<std::uint32_t>& mask = masks_[at % kMasks];
    mask.assign(free_.size(), ~0U);
    const auto id = static_cast<std::uint32_t>(ids_[at]);
    mask[id / 32] &= ~(1U << (id % 32));
    return mask;
  }
  void accept(std::int32_t /*id*/) override { ++accepted_; }

 private:
  std::vector<std::int32_t> ids_;
  std::vector<std::uint32_t> free_;
  std::array<std::vector<std::uint32_t>, kMasks> masks_;
  std::size_t accepted_ = 0;
};

}  // namespace

void score_prompt(engine::Submission& submission, std::int64_t vocabulary) {
  std::vector<std::int32_t> forced(submission.prompt.begin() + 1, submission.prompt.end());
  submission.prompt.resize(1);
  submission.reuse_prefix = false;
  std::vector<std::int32_t> ends = std::exchange(submission.sampling.stop_token_ids, {});
  if (!submission.sampling.ignore_eos)
    ends.insert(ends.end(), submission.end_ids.begin(), submission.end_ids.end());
  submission.end_ids.clear();
  submission.ends_answer = [left = forced.size(), ends = std::move(ends),
                            inner = std::move(submission.ends_answer)](std::int32_t id) mutable {
    if (left > 0) return --left, false;
    const bool stopped = inner && inner(id);
    return stopped || std::ranges::find(ends, id) != ends.end();
  };
  submission.constraint = std::make_shared<ForcedTokens>(std::move(forced), vocabulary);
}

}  // namespace inkstone::server
