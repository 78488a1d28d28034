// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "cache/ids.h"

namespace inkstone::scheduler {
namespace {

using cache::kPageTokens;
using cache::pages_for;

std::int64_t missing_pages(const SequenceView& view, std::int64_t end) {
  return std::max<std::int64_t>(0, pages_for(end) - view.pages_held);
}

// Works on one step; the fields are what is left of each resource.
class Planner {
 public:
  Planner(std::span<const SequenceView> views, std::span<const std::int32_t> running,
          const Capacity& capacity, const Limits& limits, StepPlan& plan)
      : views_(views), running_(running), left_(capacity), limits_(limits), plan_(plan) {
    budget_ = limits.token_budget;
  }

  void plan_decodes() {
    with_drafts_ = decodes_fit();
    while (!decodes_fit())
      if (!preempt_victim(-1)) break;
    for (const std::int32_t index : running_) {
      const SequenceView& view = views_[at(index)];
      if (view.in_prompt() || view.position >= view.length || gone(index)) continue;
      const std::int64_t rows = decode_rows(view);
      const std::int64_t pages = missing_pages(view, view.position + rows);
      if (pages > left_.pages || rows > budget_) continue;
      left_.pages -= pages;
      budget_ -= rows;
      plan_.rows.push_back({index, rows, true, true});
    }
  }

  void plan_prompts() {
    for (const std::int32_t index : running_) {
      const SequenceView& view = views_[at(index)];
      if (!view.in_prompt() || gone(index)) continue;
      plan_prompt(index, view.position);
    }
  }

  void plan_admissions(std::span<const std::int32_t> order) {
    if (!plan_.preempted.empty()) return;  // what was just taken away is not given to others
    std::int64_t promised = 0;
    bool alone = true;
    for (const std::int32_t index : running_) {
      promised += still_needs(views_[at(index)]);
      alone = false;
    }
    // Rows of this step are promised above and have been taken from left_ since.
    for (const PlannedRows& rows : plan_.rows) {
      const SequenceView& view = views_[at(rows.sequence)];
      promised -= std::min(still_needs(view), missing_pages(view, view.position + rows.rows));
    }
    for (const std::int32_t index : order) {
      if (left_.slots == 0 || budget_ == 0) return;
      if (!try_admit(index, promised, alone)) return;
      alone = false;
    }
  }

 private:
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

  [[nodiscard]] bool gone(std::int32_t index) const {
    return std::ranges::any_of(plan_.preempted, [&](const auto& entry) { return entry.sequence == index; });
  }

  [[nodiscard]] std::int64_t decode_rows(const SequenceView& view) const {
    return 1 + (with_drafts_ ? view.draft_rows : 0);
  }

  [[nodiscard]] bool decodes_fit() const {
    std::int64_t needed = 0;
    for (const std::int32_t index : running_) {
      const SequenceView& view = views_[at(index)];
      if (view.in_prompt() || view.position >= view.length) continue;
      const std::int64_t pages = missing_pages(view, view.position + decode_rows(view));
      if (pages > 0 && !gone(index)) needed += pages;
    }
    return needed <= left_.pages;
  }

  // Pages that a running sequence will ask for soon: the rest of its prompt and the start of its answer.
  [[nodiscard]] std::int64_t still_needs(const SequenceView& view) const {
    const std::int64_t soon = std::max(view.length, view.prompt_end) + limits_.answer_reserve_tokens;
    return missing_pages(view, std::min(view.most_tokens, soon));
  }

  // The running sequence that gives way, other than `keep`. The last one left always stays.
  bool preempt_victim(std::int32_t keep) {
    std::int32_t victim = -1;
    std::int64_t left_running = 0;
    for (const std::int32_t index : running_) {
      if (gone(index)) continue;
      ++left_running;
      if (index == keep) continue;
      if (victim < 0 || gives_way_before(views_[at(index)], views_[at(victim)])) victim = index;
    }
    if (victim < 0 || left_running < 2) return false;
    preempt(victim);
    return true;
  }

  static bool gives_way_before(const SequenceView& a, const SequenceView& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    return a.admission > b.admission;
  }

  void preempt(std::int32_t index) {
    const SequenceView& view = views_[at(index)];
    const bool swaps = left_.host_windows > 0 && pages_for(view.position) <= left_.host_pages;
    if (swaps) {
      --left_.host_windows;
      left_.host_pages -= pages_for(view.position);
    }
    left_.pages += view.pages_private;
    plan_.preempted.push_back({index, swaps ? Preemption::kSwap : Preemption::kRecompute});
  }

  void plan_prompt(std::int32_t index, std::int64_t position) {
    const SequenceView& view = views_[at(index)];
    std::int64_t rows = chunk_rows(view, position);
    // With nothing else to do, the first prompt must advance: it takes pages from later ones.
    while (rows == 0 && budget_ > 0 && plan_.rows.empty() && preempt_victim(index))
      rows = chunk_rows(view, position);
    if (rows == 0) return;
    left_.pages -= missing_pages(view, position + rows);
    budget_ -= rows;
    plan_.rows.push_back({index, rows, false, position + rows == view.length});
  }

  [[nodiscard]] std::int64_t chunk_rows(const SequenceView& view, std::int64_t position) const {
    const std::int64_t room = (view.pages_held + left_.pages) * kPageTokens;
    const std::int64_t stop = std::min({view.prompt_end, view.next_cut, room});
    const std::int64_t most = std::min({budget_, limits_.max_chunk_tokens, stop - position});
    if (most <= 0) return 0;
    const std::int64_t end = position + most;
    if (end == view.prompt_end || end == view.next_cut || limits_.max_chunk_tokens < kPageTokens) return most;
    return std::max<std::int64_t>(0, cache::page_floor(end) - position);
  }

  bool try_admit(std::int32_t index, std::int64_t& promised, bool alone) {
    const SequenceView& view = views_[at(index)];
    const std::int64_t held = view.phase == Phase::kSwapped ? 0 : view.prefix_pages;
    const std::int64_t soon =
        std::min(view.most_tokens, std::max(view.length, view.prompt_end) + limits_.answer_reserve_tokens);
    const std::int64_t needed = pages_for(soon) - held;
    // Alone, it needs what it brings and one page to go on.
    const std::int64_t least = pages_for(view.position + 1) - held;
    if (alone ? least > left_.pages : needed + promised > left_.pages) return false;
    const std::int64_t brings = pages_for(view.position) - held;
    --left_.slots;
    left_.pages -= brings;
    promised += needed - brings;
    plan_.admitted.push_back(index);
    const std::int64_t before = left_.pages;
    plan_first_rows(index, view);
    promised -= before - left_.pages;
    return true;
  }

  // The admitted sequence holds what it brings; it goes on in this step where the budget allows.
  void plan_first_rows(std::int32_t index, const SequenceView& view) {
    SequenceView held = view;
    held.pages_held = pages_for(view.position);
    if (!held.in_prompt())
      return;  // a swapped one decodes from the next step on, in its place among the others
    const std::int64_t rows = chunk_rows(held, held.position);
    if (rows == 0) return;
    left_.pages -= missing_pages(held, held.position + rows);
    budget_ -= rows;
    plan_.rows.push_back({index, rows, false, held.position + rows == held.length});
  }

  std::span<const SequenceView> views_;
  std::span<const std::int32_t> running_;
  Capacity left_;
  Limits limits_;
  StepPlan& plan_;
  std::int64_t budget_ = 0;
  bool with_drafts_ = true;
};

}  // namespace

bool admits_before(const SequenceView& a, const SequenceView& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  return a.arrival < b.arrival;
}

void plan_step(std::span<const SequenceView> views, std::span<const std::int32_t> running,
               std::span<const std::int32_t> order, const Capacity& capacity, const Limits& limits,
               StepPlan& plan) {
  plan.clear();
  Planner planner(views, running, capacity, limits, plan);
  planner.plan_decodes();
  planner.plan_prompts();
  planner.plan_admissions(order);
}

Result<std::int64_t> most_tokens(const RequestSize& request, std::int64_t context_tokens,
                                 std::int64_t pool_tokens) {
  const std::int64_t room = std::min(context_tokens, pool_tokens);
  const std::string_view which = context_tokens <= pool_tokens ? "the context has" : "the cache has room for";
  if (request.prompt_tokens + 1 > room) {
    return fail(ErrorKind::kTooLarge,
                fmt::format("the prompt has {} tokens and needs room for at least one more; {} {} tokens",
                            request.prompt_tokens, which, room));
  }
  if (request.max_tokens < 0) return room;
  const std::int64_t wanted = request.prompt_tokens + request.max_tokens;
  if (wanted > room) {
    return fail(ErrorKind::kTooLarge,
                fmt::format("{} prompt tokens and {} tokens of answer are {} tokens; {} {}",
                            request.prompt_tokens, request.max_tokens, wanted, which, room));
  }
  return wanted;
}

Status check(const Limits& limits, std::int64_t slots, std::int64_t rows_per_decode) {
  const std::int64_t decode_rows = slots * rows_per_decode;
  const std::int64_t least = decode_rows + std::min(kPageTokens, limits.max_chunk_tokens);
  if (limits.max_chunk_tokens < 1) return invalid("the chunk limit is at least one token");
  if (limits.token_budget < least) {
    return invalid(
        fmt::format("a token budget of {} leaves no room for prompts: {} sequences decode {} rows, and a "
                    "chunk needs {} more",
                    limits.token_budget, slots, decode_rows, least - decode_rows));
  }
  return {};
}

}  // namespace inkstone::scheduler
