// SPDX-License-Identifier: Apache-2.0
// `--speculate auto` against every fixed depth, in a world where rows and passes cost what the test says.
#include <gtest/gtest.h>

#include <limits>

#include "tests/speculation/loop_rig.h"
#include "tests/speculation/prompts.h"

namespace inkstone::testing {
namespace {

using engine::EngineOptions;
using engine::Submission;
using speculative::RoundCost;

// The real model, and a clock that moves by what a step of decodes or a pass of the heads costs.
class CostedRunner final : public engine::ModelRunner {
 public:
  CostedRunner(MiniModel& mini, const EngineOptions& options, const RoundCost& cost, double& now_us)
      : cost_(cost), now_us_(now_us) {
    auto runner = engine::DecoderRunner::create({&mini.config, &mini.weights, mini.backend.get()}, options,
                                                sampling::TokenMask(mini.config.valid_vocabulary));
    INK_CHECK(runner.has_value(), runner ? "" : runner.error().message);
    inner_ = std::move(*runner);
  }
  const model::StateSpec& state_spec() const override { return inner_->state_spec(); }
  std::int64_t steps_ahead() const override { return inner_->steps_ahead(); }
  speculative::Drafter* drafter() override { return inner_->drafter() == nullptr ? nullptr : &drafter_; }
  Status copy_state(std::span<const cache::RowCopy> copies) override { return inner_->copy_state(copies); }
  Status submit(const engine::StepBatch& batch) override {
    if (batch.step_rows == batch.num_rows())
      now_us_ += cost_.verify_base_us + cost_.verify_row_us * static_cast<double>(batch.num_rows());
    return inner_->submit(batch);
  }
  Status collect(std::vector<sampling::SampledToken>& drawn) override { return inner_->collect(drawn); }

 private:
  class CostedDrafter final : public speculative::Drafter {
   public:
    explicit CostedDrafter(CostedRunner& runner) : runner_(runner) {}
    std::int64_t max_depth() const override { return runner_.inner_->drafter()->max_depth(); }
    bool keeps_state() const override { return true; }
    Status draft(std::span<const speculative::DraftRequest> requests,
                 std::vector<speculative::Drafts>& drafts) override {
      std::int64_t passes = 0;
      for (const auto& request : requests) passes = std::max(passes, request.heads.depths);
      runner_.now_us_ += runner_.cost_.draft_pass_us * static_cast<double>(passes);
      return runner_.inner_->drafter()->draft(requests, drafts);
    }

   private:
    CostedRunner& runner_;
  };

  RoundCost cost_;
  double& now_us_;
  std::unique_ptr<engine::DecoderRunner> inner_;
  CostedDrafter drafter_{*this};
};

class Auto : public ::testing::Test {
 protected:
  Auto() {
    for (const Prompt& prompt : recorded_prompts(60)) {
      if (prompt.task != "story" && prompt.task != "math") continue;
      submissions_.push_back(engine::greedy(prompt.ids, 90));
      submissions_.back().end_ids = {kEndId};
    }
  }
  double us_of(const char* depth, const RoundCost& cost) {
    double now_us = 0;
    EngineOptions options = engine::mini_options();
    options.max_sequences = 1;
    options.integrity_checks = false;
    options.reuse_prefixes = false;
    options.clock_us = [&] { return now_us; };
    INK_CHECK(engine::set_speculation(depth, "heads", mini_.config.num_mtp(), options).has_value());
    CostedRunner runner(mini_, options, cost, now_us);
    engine::StepLoop loop(runner, options);
    for (const Submission& submission : submissions_) run_loop(loop, {submission});
    return now_us;
  }

  void expect_close(const RoundCost& world) {
    double best = std::numeric_limits<double>::infinity();
    for (const char* depth : {"0", "3", "6", "8"}) best = std::min(best, us_of(depth, world));
    const double chosen = us_of("auto", world);
    printf("auto takes %.3f of the best fixed depth's time\n", chosen / best);
    EXPECT_LE(chosen, 1.05 * best);
  }

  MiniModel mini_;
  std::vector<Submission> submissions_;
};

TEST_F(Auto, KeepsUpWhereDeepDraftsPay) {
  expect_close({.verify_base_us = 1000, .verify_row_us = 10, .draft_pass_us = 20});
}

TEST_F(Auto, KeepsUpWhereSomeDraftsPay) {
  expect_close({.verify_base_us = 1000, .verify_row_us = 150, .draft_pass_us = 150});
}

TEST_F(Auto, KeepsUpWhereNoDraftPays) {
  expect_close({.verify_base_us = 100, .verify_row_us = 500, .draft_pass_us = 300});
}

}  // namespace
}  // namespace inkstone::testing
