// SPDX-License-Identifier: Apache-2.0
// engine/step_loop.h - the engine without its thread: takes requests, runs one step at a time, gives tokens.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cache/cache_manager.h"
#include "engine/batch_builder.h"
#include "engine/draft_stage.h"
#include "engine/encoder/encoder_stage.h"
#include "engine/engine_options.h"
#include "engine/model_runner.h"
#include "engine/request.h"
#include "scheduler/scheduler.h"

namespace inkstone::engine {

// Counts since the start, and what is there now.
struct EngineStats {
  std::int64_t running = 0;
  std::int64_t waiting = 0;  // swapped ones too
  std::int64_t steps = 0;
  std::int64_t prompt_tokens = 0;  // computed, not restored
  std::int64_t cached_tokens = 0;
  std::int64_t generated_tokens = 0;
  std::int64_t finished = 0;
  std::int64_t swaps = 0;
  std::int64_t recomputes = 0;
  std::int64_t checkpoints = 0;  // held now
  std::int64_t free_pages = 0;   // evictable ones too
  std::int64_t free_slots = 0;
  bool failed = false;  // a fault of the device: nothing is computed any more
  Speculation speculation;
  RoundTimes rounds;
  EncoderStats encoder;
};

// One thread. The order of events is the same on every backend: while step k runs, step k + 1 is planned and
// enqueued; then the host waits for step k. With drafts one step is in flight: it is enqueued, collected and
// judged, then the next drafts are made, if they were not made with it.
class StepLoop {
 public:
  // `runner` outlives the loop; its storage has the sizes of cache_limits(spec, options).
  StepLoop(ModelRunner& runner, const EngineOptions& options);

  // `most_tokens` as scheduler::most_tokens gives it. The outcome comes through the channel.
  void submit(Submission submission, std::shared_ptr<RequestChannel> channel, std::int64_t most_tokens);

  // Plans and enqueues one step, takes the results of the one before. False when no request is left. An error
  // is the device's: all requests have failed with it, and the loop is of no more use.
  Result<bool> step();

  [[nodiscard]] EngineStats stats() const;
  [[nodiscard]] Status check_invariants() const { return cache_.check_invariants(); }
  [[nodiscard]] cache::CacheManager& cache() { return cache_; }
  // Ends every request.
  void fail_all(const Error& error);

 private:
  // What has to be remembered of a step until it has been collected.
  struct InFlight {
    struct Part {
      std::int32_t request = 0;
      std::int64_t first_draw = 0;
      std::int64_t draws = 0;
      bool decode = false;
    };
    StepBatch batch;
    std::vector<Part> parts;  // by sequence of the batch
    bool drafts = false;      // behind its tokens are made with it
  };
  static constexpr std::size_t kBatches = 2;

  [[nodiscard]] Request& at(std::int32_t index) { return *requests_[static_cast<std::size_t>(index)]; }

  // Stations of a step, in order (step.cc).
  void drop_cancelled();
  void match_waiting();
  void look_at_sequences();
  void preempt();
  void admit();
  void reserve_pages();
  Status enqueue();
  Status collect();

  void match(std::int32_t index);
  void unmatch_waiting();
  [[nodiscard]] scheduler::SequenceView view_of(const Request& request) const;
  [[nodiscard]] scheduler::Capacity capacity() const;
  void add_source(const scheduler::PlannedRows& rows);
  void plan_drafts(InFlight& flight);
  void note_enqueued(InFlight& flight);
  void want_checkpoint(Request& request);
  Status copy_state();
  void take_draws(const InFlight::Part& part);
  void take_token(std::int32_t index, const sampling::SampledToken& drawn);
  Status make_drafts(const InFlight& flight);
  void finish_kept(Request& request);
  void end(std::int32_t index, FinishReason reason, Error error = {});
  void forget_if_done(std::int32_t index);
  void insert_waiting(std::int32_t index);

  ModelRunner& runner_;
  EngineOptions options_;
  cache::CacheManager cache_;
  BatchBuilder builder_;
  DraftStage drafts_;
  EncoderStage encoder_;

  std::vector<std::unique_ptr<Request>> requests_;  // by index; empty ones are free
  std::vector<std::int32_t> free_requests_;
  std::vector<std::int32_t> running_;  // in order of admission
  std::vector<std::int32_t> waiting_;  // in order of admission to come
  std::int64_t next_arrival_ = 0;
  std::int64_t next_admission_ = 1;

  // Memory of a step, used again.
  std::vector<scheduler::SequenceView> views_;
  std::vector<std::int32_t> candidates_;
  scheduler::StepPlan plan_;
  cache::CopyPlan copies_;
  std::vector<RowSource> sources_;
  std::vector<std::int32_t> order_;
  std::vector<DraftStage::Decode> decodes_;
  std::vector<sampling::SampledToken> drawn_;

  std::array<InFlight, kBatches> flights_;
  std::int64_t enqueued_steps_ = 0;
  std::int64_t collected_steps_ = 0;
  EngineStats counts_;
};

}  // namespace inkstone::engine
