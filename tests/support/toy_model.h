// SPDX-License-Identifier: Apache-2.0
// tests/support/toy_model.h - a model whose tokens are hashes of every state row that they may see: a wrong,
// stale or missing row changes the text.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "engine/engine_options.h"
#include "engine/model_runner.h"
#include "engine/state_storage.h"
#include "tests/support/host_memory.h"

namespace inkstone::testing {

// Rows of all groups depend on the token, the position and the rows of the group within its window. Groups
// with look-ahead stand for MTP heads: their row of position p also depends on the "hidden" rows up to p +
// lookahead, so the last ones are provisional and are run again by the next step.
struct ToyRules {
  std::vector<std::int64_t> windows;     // what the model really reads, by group; 0 = everything
  std::vector<std::int64_t> lookaheads;  // by group
  std::int64_t hidden_group = -1;        // read by the groups with look-ahead
  std::int64_t vocabulary = 5;
};

// Two paged groups, windows of 20, 4 and 100 (a made-up kind of state that no cache code knows), hidden rows,
// and a paged and a windowed group of heads that look 2 tokens ahead.
model::StateSpec toy_spec();
ToyRules rules_of(const model::StateSpec& spec);

struct ToyToken {
  std::int32_t id = 0;
  float digest = 0;  // stands for the log-probability: 24 bits of the hash
};

// The same model over plain arrays: one sequence alone, nothing cached, nothing paged.
class ToyOracle {
 public:
  explicit ToyOracle(ToyRules rules) : rules_(std::move(rules)), rows_(rules_.windows.size()) {}
  // Feeds a token and gives what follows.
  ToyToken feed(std::int32_t token);

 private:
  ToyRules rules_;
  std::vector<std::vector<std::uint64_t>> rows_;
  std::int64_t position_ = 0;
};

// Drafts random tokens, from none to as many as are wanted.
class Guesser final : public speculative::Drafter {
 public:
  Guesser(std::int64_t max_drafts, std::int64_t vocabulary, std::uint32_t seed)
      : max_drafts_(max_drafts), vocabulary_(vocabulary), random_(seed) {}
  [[nodiscard]] std::int64_t max_depth() const override { return max_drafts_; }
  Status draft(std::span<const speculative::DraftRequest> requests,
               std::vector<speculative::Drafts>& drafts) override;

 private:
  std::int64_t max_drafts_;
  std::int64_t vocabulary_;
  std::mt19937 random_;
};

class ToyRunner final : public engine::ModelRunner {
 public:
  struct Options {
    model::StateSpec spec = toy_spec();  // what the engine is told
    ToyRules rules = rules_of(toy_spec());
    std::int64_t max_drafts = 0;  // random tokens to verify after each draw; with any, nothing runs ahead
    std::uint32_t seed = 1;
    std::int64_t fail_at_step = -1;
    // Broken controls: rows of this group are left out when state comes back from host memory or another
    // slot; and whatever a test does before a step is enqueued and before its results are taken.
    std::int64_t forgotten_group = -1;
    std::int64_t short_ring_group = -1;  // its ring has a row less than the cache believes
    std::function<void()> before_submit;
    std::function<void(const engine::StepBatch&)> before_collect;
  };
  ToyRunner(Options options, const engine::EngineOptions& engine);

  [[nodiscard]] const model::StateSpec& state_spec() const override { return options_.spec; }
  [[nodiscard]] std::int64_t steps_ahead() const override { return options_.max_drafts > 0 ? 0 : 1; }
  Status copy_state(std::span<const cache::RowCopy> copies) override;
  Status submit(const engine::StepBatch& batch) override;
  Status collect(std::vector<sampling::SampledToken>& drawn) override;
  [[nodiscard]] speculative::Drafter* drafter() override { return &guesser_; }

  [[nodiscard]] Options& options() { return options_; }
  [[nodiscard]] std::int64_t rows_run() const { return rows_run_; }
  [[nodiscard]] std::int64_t largest_step() const { return largest_step_; }
  [[nodiscard]] const std::vector<std::int64_t>& step_sizes() const { return step_sizes_; }

 private:
  void run_sequence(const engine::StepBatch& batch, std::int64_t sequence,
                    std::vector<sampling::SampledToken>& drawn);
  [[nodiscard]] std::int64_t row_index(std::size_t group, std::int64_t sequence, std::int64_t slot,
                                       std::int64_t position) const;
  [[nodiscard]] std::uint64_t read_row(std::size_t group, std::int64_t row) const;
  void write_row(std::size_t group, std::int64_t row, std::uint64_t value);

  Options options_;
  HostMemory memory_;
  std::unique_ptr<ops::Stream> stream_;
  std::unique_ptr<engine::StateStorage> storage_;
  std::vector<std::int64_t> kept_rows_;
  std::vector<std::vector<std::int32_t>> table_;  // by row of the batch
  std::vector<std::int32_t> last_drawn_;          // by slot
  struct Result {
    const engine::StepBatch* batch = nullptr;
    std::vector<sampling::SampledToken> drawn;
  };
  std::vector<Result> results_;  // of the steps in flight
  Guesser guesser_;
  std::int64_t steps_ = 0;
  std::int64_t rows_run_ = 0;
  std::int64_t largest_step_ = 0;
  std::vector<std::int64_t> step_sizes_;
};

}  // namespace inkstone::testing
