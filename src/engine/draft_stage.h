// SPDX-License-Identifier: Apache-2.0
// engine/draft_stage.h - stations 10 and 11 of docs/journey.md: judges the drafts of a verify step, and asks
// for those of the next. One round is: verify step, collect, accept, draft. Or, where the runner drafts with
// the step: both together, collect, accept, and what was drafted.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine_options.h"
#include "engine/model_runner.h"
#include "engine/request.h"
#include "speculative/cost_estimate.h"
#include "speculative/drafter.h"
#include "speculative/lookup_drafter.h"
#include "speculative/past_answers.h"

namespace inkstone::engine {

// One thread, the loop's. Without a drafter it counts steps, and every row drawn is a token.
//
// A request drafts with its first `depths` heads, which have rows for every position; a depth that missed
// rows could only be brought back by running the trunk again, so the number only falls. Fixed: it stays at
// N. `auto`: as deep as pays (speculative/depth_choice.h). Where fewer depths would pay, all run on for a
// while and are drafted with as far as their rows are worth verifying; when that has cost as much as a plain
// step they are given up, and with none left the request decodes plainly. New requests start with the depths
// that pay on average, every kTrial-th with all, which drafts with all for a few rounds, so that the average
// follows the load. The first rounds of all draft at each depth in turn, and every kProbe-th later, at first
// more of them, at another than the chosen one, so that what a depth costs is known.
class DraftStage {
 public:
  struct Decode {
    Request* request = nullptr;
    std::int64_t rows = 0;
    cache::SlotId slot;
  };

  DraftStage(ModelRunner& runner, const EngineOptions& options);

  [[nodiscard]] bool enabled() const { return drafter_ != nullptr; }

  // A request comes to run, `position` rows restored: for the first time, or again from nothing.
  void admit(Request& request);
  // For a step that is about to be enqueued and holds nothing but decodes of these requests, where the runner
  // drafts with the step: asks for their drafts by `windows`. False where one of them needs more than a
  // window; nobody is asked for then.
  bool add_to_step(std::span<const Decode> decodes, std::vector<speculative::WindowRequest>& windows);
  void start_step();
  // The rows of a prompt's chunk have been enqueued, heads included.
  void note_prompt_rows(Request& request) const;

  // `drawn`: what plain sampling draws behind each of the request's rows. Gives how many of the leading ones
  // are tokens of the answer, and forgets the drafts.
  std::int64_t judge(Request& request, std::span<const sampling::SampledToken> drawn);
  // Before a token is published; its outcome may follow at once.
  void count_emitted(Request& request);
  // After all of them: what `auto` learns from.
  void note_emitted(Request& request, std::int64_t drafted, std::int64_t emitted);
  // The step has been collected; `decode_rows`: its rows when it held nothing but decodes, else 0.
  void end_step(std::int64_t decode_rows, std::int64_t num_sequences);

  // Whether rows that the cache keeps at the end of the request are missing at the heads.
  [[nodiscard]] bool lags(const Request& request) const;
  // Adds a request whose tokens of this step are known: it drafts, or at its end only brings its rows up to
  // date. `table_row`: its sequence in the last step.
  void add(Request& request, std::int32_t table_row, cache::SlotId slot);
  // Runs the drafter over those added, or takes the drafts of those who were added to the step.
  Status run();

  [[nodiscard]] const Speculation& counts() const { return counts_; }
  [[nodiscard]] const RoundTimes& times() const { return times_; }

 private:
  static constexpr double kPatienceSteps = 1;
  static constexpr double kLeastGain = 1.02;  // below, another depth is no better
  static constexpr std::int64_t kTrial = 32;
  static constexpr std::int64_t kTrialRounds = 2;
  static constexpr std::int64_t kProbe = 32;  // rounds, at most

  [[nodiscard]] std::int64_t wanted_drafts(Request& request);
  [[nodiscard]] speculative::WindowRequest window_of(const Decode& decode, std::int32_t sequence) const;
  Status take_drafts();
  [[nodiscard]] std::int64_t adapted_depth(Request& request, std::int64_t most);
  [[nodiscard]] std::int64_t probed_depth(std::int64_t chosen) const;
  // Every depth was tried four times.
  [[nodiscard]] bool costs_known() const { return cost_.rounds() >= 4 * (options_.draft_rows + 1); }
  [[nodiscard]] speculative::RoundTokens round_tokens(const speculative::AcceptanceEstimate& estimate) const;
  std::int64_t start_depth();
  static bool gives_up_depths(Request& request, std::int64_t chosen, const speculative::RoundTokens& tokens,
                              const speculative::RoundCost& cost);
  void learn(double draft_us);

  ModelRunner& runner_;
  const EngineOptions& options_;
  std::optional<speculative::LookupDrafter> lookup_;
  speculative::Drafter* drafter_ = nullptr;

  std::vector<std::int32_t> ids_;  // drawn for one request
  std::vector<Request*> requests_;
  std::vector<speculative::DraftRequest> asked_;
  std::vector<speculative::Drafts> drafts_;
  std::vector<speculative::WindowDrafts> with_step_;
  bool added_to_step_ = false;

  speculative::CostEstimate cost_;
  speculative::AcceptanceEstimate average_{100};
  speculative::PastAnswers past_answers_;
  std::int64_t num_sequences_ = 1;  // that drew in the last step
  std::int64_t admitted_ = 0;
  std::int64_t start_depth_ = 0;  // of new requests
  std::int64_t rounds_ = 0;
  std::int64_t last_probe_ = 0;  // round
  std::int64_t probes_ = 0;
  double step_started_us_ = 0;
  std::int64_t first_runs_ = 0;  // of the runner, before the step
  double verify_us_ = 0;
  std::int64_t verify_rows_ = 0;  // 0: the step says nothing about verifying
  Speculation counts_;
  RoundTimes times_;
};

}  // namespace inkstone::engine
