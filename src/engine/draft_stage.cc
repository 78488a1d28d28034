// SPDX-License-Identifier: Apache-2.0
#include "engine/draft_stage.h"

#include <algorithm>

#include "base/check.h"
#include "speculative/acceptance.h"

namespace inkstone::engine {
namespace {

void count(Speculation& counts, std::int64_t drafted, std::int64_t accepted) {
  ++counts.verify_steps;
  counts.drafted += drafted;
  counts.accepted += accepted;
  for (std::int64_t i = 0; i < drafted; ++i) ++counts.drafted_at[static_cast<std::size_t>(i)];
  for (std::int64_t i = 0; i < accepted; ++i) ++counts.accepted_at[static_cast<std::size_t>(i)];
}

// Rows of the trunk that belong to known tokens.
std::int64_t rows_to_keep(const Request& request) { return std::min(request.position, request.num_tokens()); }

}  // namespace

DraftStage::DraftStage(ModelRunner& runner, const EngineOptions& options) : options_(options) {
  if (options.draft_rows == 0) return;
  if (options.drafter == DrafterKind::kLookup) {
    drafter_ = &lookup_.emplace(options.draft_rows);
  } else {
    drafter_ = runner.drafter();
  }
  INK_CHECK(drafter_ != nullptr && runner.steps_ahead() == 0, "a runner that can draft");
}

void DraftStage::admit(Request& request) {
  if (!enabled()) return;
  Drafting& own = request.drafting;
  own.drafts.clear();
  own.acceptance = speculative::AcceptanceEstimate::like(average_);
  own.idle_us = 0;
  own.low_depths = 0;
  own.depths = drafter_->keeps_state() ? options_.draft_rows : 0;
  if (options_.adaptive_depth && admitted_++ % kTrial != 0) own.depths = paying_depth(average_, own.depths);
  own.head_rows = std::max<std::int64_t>(0, request.position - own.depths);
}

void DraftStage::start_step() { step_started_us_ = options_.clock_us(); }

void DraftStage::note_prompt_rows(Request& request) const {
  if (enabled()) request.drafting.head_rows = request.position;
}

std::int64_t DraftStage::judge(Request& request, std::span<const sampling::SampledToken> drawn) {
  Drafting& own = request.drafting;
  ids_.clear();
  for (const sampling::SampledToken& token : drawn) ids_.push_back(token.id);
  const auto drafted = static_cast<std::int64_t>(drawn.size()) - 1;
  const std::int64_t accepted = speculative::num_accepted(
      std::span<const std::int32_t>(own.drafts).first(static_cast<std::size_t>(drafted)), ids_);
  own.drafts.clear();
  count(own.counts, drafted, accepted);
  count(counts_, drafted, accepted);
  return accepted;
}

void DraftStage::note_emitted(Request& request, std::int64_t drafted, std::int64_t emitted) {
  const std::int64_t useful = std::min(drafted, emitted - 1);
  request.drafting.acceptance.observe(drafted, useful);
  average_.observe(drafted, useful);
}

void DraftStage::count_emitted(Request& request) {
  ++request.drafting.counts.emitted;
  ++counts_.emitted;
}

void DraftStage::end_step(std::int64_t decode_rows, std::int64_t num_sequences) {
  verify_rows_ = decode_rows;
  num_sequences_ = num_sequences;
  verify_us_ = options_.clock_us() - step_started_us_;
  if (decode_rows == 0) return;
  ++times_.steps;
  times_.verify_us += verify_us_;
}

bool DraftStage::lags(const Request& request) const {
  return enabled() && drafter_->keeps_state() && request.drafting.depths > 0 &&
         request.drafting.head_rows < rows_to_keep(request);
}

void DraftStage::add(Request& request, std::int32_t table_row, cache::SlotId slot) {
  Drafting& own = request.drafting;
  const std::int64_t drafts = request.ended ? 0 : wanted_drafts(request);
  if (drafter_->keeps_state() ? own.depths == 0 : drafts == 0) return;
  const std::int64_t end = rows_to_keep(request);
  requests_.push_back(&request);
  asked_.push_back({.tokens = request.tokens,
                    .max_drafts = drafts,
                    .heads = {.slot = slot.value,
                              .table_row = table_row,
                              .begin = speculative::first_row_to_run(own.head_rows, end, own.depths),
                              .end = end,
                              .depths = own.depths,
                              .media = own.media,
                              .rules = &request.rules}});
}

std::int64_t DraftStage::wanted_drafts(Request& request) {
  Drafting& own = request.drafting;
  const bool heads = drafter_->keeps_state();
  const std::int64_t most = heads ? own.depths : options_.draft_rows;
  std::int64_t depth = most;
  if (options_.adaptive_depth) {
    depth = cost_.ready() ? paying_depth(own.acceptance, most)
                          : std::min(most, rounds_ % (options_.draft_rows + 1));
    // Look-up loses nothing by drafting again later, and only a draft shows that it pays again.
    if (!heads && rounds_ % kTrial == 0) depth = std::max<std::int64_t>(depth, 1);
    if (heads && cost_.ready()) give_up_depths(request, depth);
  }
  // The last token that the request may have needs no draft: the row before it draws it.
  const std::int64_t remaining = request.most_tokens - request.num_tokens();
  return std::clamp<std::int64_t>(depth, 0, remaining - 1);
}

std::int64_t DraftStage::paying_depth(const speculative::AcceptanceEstimate& estimate,
                                      std::int64_t max_depth) const {
  if (!cost_.ready()) return max_depth;
  return speculative::choose_depth({&estimate, cost_.cost(), max_depth, num_sequences_});
}

void DraftStage::give_up_depths(Request& request, std::int64_t chosen) const {
  Drafting& own = request.drafting;
  if (chosen >= own.depths) {
    own.idle_us = 0;
    own.low_depths = 0;
    return;
  }
  const speculative::RoundCost cost = cost_.cost();
  own.low_depths = std::max(own.low_depths, chosen);
  own.idle_us += static_cast<double>(own.depths - chosen) * cost.draft_pass_us;
  if (own.idle_us < kPatienceSteps * (cost.verify_base_us + cost.verify_row_us)) return;
  own.depths = own.low_depths;
  own.idle_us = 0;
  own.low_depths = 0;
}

Status DraftStage::run() {
  ++rounds_;
  std::int64_t passes = 0;
  const double started_us = options_.clock_us();
  if (!requests_.empty()) INK_TRY(drafter_->draft(asked_, drafts_));
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Drafting& own = requests_[i]->drafting;
    own.drafts = drafts_[i];
    own.head_rows = asked_[i].heads.end;
    passes = std::max(passes, asked_[i].heads.depths);
  }
  requests_.clear();
  asked_.clear();
  if (verify_rows_ == 0) return {};
  const double draft_us = options_.clock_us() - started_us;
  times_.draft_us += draft_us;
  cost_.observe(verify_rows_, verify_us_, passes, draft_us);
  return {};
}

}  // namespace inkstone::engine
