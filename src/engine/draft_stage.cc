// SPDX-License-Identifier: Apache-2.0
#include "engine/draft_stage.h"

#include <algorithm>
#include <utility>

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

// The last token that the request may have needs no draft: the row before it draws it.
std::int64_t most_useful(const Request& request) {
  return std::max<std::int64_t>(0, request.most_tokens - request.num_tokens() - 1);
}

}  // namespace

DraftStage::DraftStage(ModelRunner& runner, const EngineOptions& options)
    : runner_(runner), options_(options) {
  if (options.draft_rows == 0) return;
  start_depth_ = options.draft_rows;
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
  own.gives_up = false;
  own.depths = drafter_->keeps_state() ? options_.draft_rows : 0;
  own.trial_rounds = 0;
  if (options_.adaptive_depth) {
    // One at a time costs its neighbours passes too.
    const bool trial = admitted_++ % (kTrial * num_sequences_) == 0;
    if (trial) own.trial_rounds = kTrialRounds;
    if (!trial && drafter_->keeps_state()) own.depths = start_depth();
  }
  own.head_rows = std::max<std::int64_t>(0, request.position - own.depths);
}

void DraftStage::start_step() {
  step_started_us_ = options_.clock_us();
  first_runs_ = runner_.first_runs();
}

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
  own.right = accepted;
  count(own.counts, drafted, accepted);
  count(counts_, drafted, accepted);
  return accepted;
}

void DraftStage::note_emitted(Request& request, std::int64_t drafted, std::int64_t emitted) {
  Drafting& own = request.drafting;
  // Where the answer ended among right drafts, nothing is known of those behind.
  const std::int64_t known = emitted <= own.right ? emitted : drafted;
  const std::int64_t right = std::min(emitted, own.right);
  own.acceptance.observe(known, right);
  average_.observe(known, right);
  if (!options_.adaptive_depth) return;
  own.answer.add_round(known, right, emitted);
  if (request.ended) past_answers_.observe(own.answer.tokens(), average_);
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
  const std::int64_t drafts = request.ended ? 0 : std::min(wanted_drafts(request), most_useful(request));
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
                              .media = request.media,
                              .rules = &request.rules,
                              .constraint = request.submission.constraint.get()}});
}

std::int64_t DraftStage::wanted_drafts(Request& request) {
  Drafting& own = request.drafting;
  // Behind a round that drafted no deeper: windows have no more rows than the depths that are left ask for.
  if (std::exchange(own.gives_up, false)) {
    own.depths = std::exchange(own.low_depths, 0);
    own.idle_us = 0;
  }
  const std::int64_t most = drafter_->keeps_state() ? own.depths : options_.draft_rows;
  return options_.adaptive_depth ? adapted_depth(request, most) : most;
}

// --- drafts that are made with the step ---

// As if all rows that the step may leave were needed; which they are is not known yet.
speculative::WindowRequest DraftStage::window_of(const Decode& decode, std::int32_t sequence) const {
  const Request& request = *decode.request;
  const Drafting& own = request.drafting;
  return {.with_step = true,
          .sequence = sequence,
          .fed_drafts = decode.rows - 1,
          .tokens = request.tokens,
          .num_drafts = 0,
          .heads = {.slot = decode.slot.value,
                    .table_row = sequence,
                    .begin = own.head_rows,
                    .end = 0,
                    .depths = own.depths,
                    .media = request.media,
                    .rules = &request.rules,
                    .constraint = request.submission.constraint.get()}};
}

bool DraftStage::add_to_step(std::span<const Decode> decodes,
                             std::vector<speculative::WindowRequest>& windows) {
  if (drafter_ != runner_.drafter() || !runner_.drafts_with_step()) return false;
  for (const Decode& decode : decodes)
    if (decode.request->drafting.depths > 0 && !fits_window(window_of(decode, 0), options_.draft_rows))
      return false;
  for (std::size_t i = 0; i < decodes.size(); ++i) {
    // Those behind the last token are not used.
    const std::int64_t wanted = wanted_drafts(*decodes[i].request);
    if (decodes[i].request->drafting.depths == 0) continue;
    windows.push_back(window_of(decodes[i], static_cast<std::int32_t>(i)));
    windows.back().num_drafts = wanted;
    requests_.push_back(decodes[i].request);
    asked_.push_back({.tokens = {}, .max_drafts = wanted, .heads = windows.back().heads});
  }
  added_to_step_ = true;
  return true;
}

Status DraftStage::take_drafts() {
  INK_TRY(runner_.collect_drafts(with_step_));
  drafts_.clear();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const Request& request = *requests_[i];
    INK_CHECK(with_step_[i].num_right == request.drafting.right, "the device counts as the host does");
    speculative::HeadRange& heads = asked_[i].heads;
    heads.end = rows_to_keep(request);
    heads.begin = heads.end - heads.depths - 1;
    drafts_.push_back(with_step_[i].drafts);
    if (request.ended) drafts_.back().clear();
  }
  return {};
}

// --- how many drafts ---

std::int64_t DraftStage::adapted_depth(Request& request, std::int64_t most) {
  Drafting& own = request.drafting;
  const std::int64_t kinds = options_.draft_rows + 1;
  if (!costs_known()) return std::max<std::int64_t>(0, most - rounds_ % kinds);
  if (own.trial_rounds > 0) {
    --own.trial_rounds;
    return most;
  }
  const speculative::RoundTokens tokens = round_tokens(own.acceptance);
  speculative::RoundCost cost = cost_.cost(num_sequences_);
  const std::int64_t depth = speculative::choose_depth(tokens, cost, most);
  if (rounds_ == last_probe_) return std::min(most, probed_depth(depth));
  if (!drafter_->keeps_state() || gives_up_depths(request, depth, tokens, cost)) return depth;
  // All passes run in any case.
  cost.draft_us.fill(cost.draft_us[static_cast<std::size_t>(own.depths)]);
  return speculative::choose_depth(tokens, cost, most);
}

// Mostly a neighbour of the chosen one: between these the choice is close.
std::int64_t DraftStage::probed_depth(std::int64_t chosen) const {
  switch (probes_ % 4) {
    case 0:
    case 2:
      return std::max<std::int64_t>(0, chosen - 1);
    case 1:
      return chosen + 1;
    default:
      return probes_ / 4 % (options_.draft_rows + 1);
  }
}

speculative::RoundTokens DraftStage::round_tokens(const speculative::AcceptanceEstimate& estimate) const {
  return past_answers_.corrected(speculative::expected_round_tokens(estimate));
}

std::int64_t DraftStage::start_depth() {
  if (!costs_known()) return start_depth_;
  speculative::RoundCost cost = cost_.cost(num_sequences_);
  // The heads run behind the prompt, behind every round, and behind the last one too where they run with its
  // step or somebody may resume it.
  const bool once_more = runner_.drafts_with_step() || options_.reuse_prefixes;
  for (std::int64_t depth = 0; once_more && depth <= options_.draft_rows; ++depth)
    cost.draft_us[static_cast<std::size_t>(depth)] *= 1 + 1 / past_answers_.rounds(depth);
  const speculative::RoundTokens tokens = round_tokens(average_);
  const std::int64_t best = speculative::choose_depth(tokens, cost, options_.draft_rows);
  if (speculative::round_rate(tokens, cost, best) >
      kLeastGain * speculative::round_rate(tokens, cost, start_depth_))
    start_depth_ = best;
  return start_depth_;
}

bool DraftStage::gives_up_depths(Request& request, std::int64_t chosen,
                                 const speculative::RoundTokens& tokens, const speculative::RoundCost& cost) {
  Drafting& own = request.drafting;
  const double gain =
      speculative::round_rate(tokens, cost, chosen) / speculative::round_rate(tokens, cost, own.depths);
  if (chosen >= own.depths || gain < kLeastGain) {
    own.idle_us = 0;
    own.low_depths = 0;
    return false;
  }
  const auto draft_us = [&](std::int64_t depth) { return cost.draft_us[static_cast<std::size_t>(depth)]; };
  own.low_depths = std::max(own.low_depths, chosen);
  own.idle_us += draft_us(own.depths) - draft_us(chosen);
  own.gives_up = own.idle_us >= kPatienceSteps * cost.verify_us[0];
  return own.gives_up;
}

Status DraftStage::run() {
  ++rounds_;
  // Often while little is known.
  if (rounds_ >= last_probe_ + std::clamp(rounds_ / 8, kProbe / 4, kProbe)) {
    last_probe_ = rounds_;
    ++probes_;
  }
  // Drafts of the step were under way while its tokens were taken.
  const double started_us = added_to_step_ ? step_started_us_ + verify_us_ : options_.clock_us();
  if (!requests_.empty()) INK_TRY(added_to_step_ ? take_drafts() : drafter_->draft(asked_, drafts_));
  const double draft_us = options_.clock_us() - started_us;
  learn(draft_us);
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    Drafting& own = requests_[i]->drafting;
    own.drafts = drafts_[i];
    own.drafts.resize(std::min(own.drafts.size(), static_cast<std::size_t>(most_useful(*requests_[i]))));
    own.head_rows = asked_[i].heads.end;
  }
  if (added_to_step_ && !requests_.empty()) ++times_.drafts_with_step;
  added_to_step_ = false;
  requests_.clear();
  asked_.clear();
  return {};
}

void DraftStage::learn(double draft_us) {
  times_.draft_us += draft_us;
  if (verify_rows_ == 0 || runner_.first_runs() != first_runs_) return;
  speculative::RoundSample sample{.trunk_rows = verify_rows_, .verify_us = verify_us_, .draft_us = draft_us};
  bool draw_all = true;  // passes that draw less take less
  for (const speculative::DraftRequest& asked : asked_) {
    sample.passes = std::max(sample.passes, asked.heads.depths);
    sample.sequence_depths += asked.heads.depths;
    draw_all &= asked.max_drafts == asked.heads.depths;
  }
  if (!draw_all) sample.passes = 0;
  cost_.observe(sample);
}

}  // namespace inkstone::engine
