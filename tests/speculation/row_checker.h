// SPDX-License-Identifier: Apache-2.0
// tests/speculation/row_checker.h - a runner that looks at all state rows whenever drafts are asked for, and
// compares them with those of a fresh run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/decoder_runner.h"
#include "tests/speculation/row_oracle.h"

namespace inkstone::testing {

class RowChecker final : public engine::ModelRunner {
 public:
  RowChecker(const MiniModel& mini, const engine::EngineOptions& options);

  // Requests whose tokens begin like this text are compared with it.
  void expect(std::vector<std::int32_t> text);
  // Broken controls: what is asked of the heads before they get it, and the state before they run.
  std::function<void(speculative::DraftRequest&)> tamper;
  bool hidden_one_row_early = false;
  // Windows of requests that shared a step with others are compared too.
  [[nodiscard]] std::int64_t compared_rows() const { return compared_rows_; }
  [[nodiscard]] const std::string& fault() const { return fault_; }  // the first difference

  [[nodiscard]] const model::StateSpec& state_spec() const override { return inner_->state_spec(); }
  [[nodiscard]] std::int64_t steps_ahead() const override { return inner_->steps_ahead(); }
  [[nodiscard]] speculative::Drafter* drafter() override { return &drafter_; }
  Status copy_state(std::span<const cache::RowCopy> copies) override { return inner_->copy_state(copies); }
  Status submit(const engine::StepBatch& batch) override;
  Status collect(std::vector<sampling::SampledToken>& drawn) override;
  [[nodiscard]] bool drafts_with_step() const override { return inner_->drafts_with_step(); }
  Status collect_drafts(std::vector<speculative::WindowDrafts>& drafts) override;
  [[nodiscard]] std::int64_t checked_windows() const { return checked_windows_; }

 private:
  // A sequence that drafts with its step: what it is known to be when the step has been collected.
  struct Window {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> drafts;
    std::int64_t first_draw = 0;
    speculative::HeadRange heads;
  };

  class CheckingDrafter final : public speculative::Drafter {
   public:
    explicit CheckingDrafter(RowChecker& checker) : checker_(checker) {}
    [[nodiscard]] std::int64_t max_depth() const override { return checker_.inner_->drafter()->max_depth(); }
    [[nodiscard]] bool keeps_state() const override { return true; }
    Status draft(std::span<const speculative::DraftRequest> requests,
                 std::vector<speculative::Drafts>& drafts) override;

   private:
    RowChecker& checker_;
  };

  void check(Window& window);
  void shift_hidden(const speculative::DraftRequest& request);
  void check(const speculative::DraftRequest& request);
  void compare(const RowOracle& oracle, std::size_t group, std::int64_t position, std::int64_t row);
  [[nodiscard]] std::int64_t first_to_compare(std::size_t group, std::int64_t end) const;

  const MiniModel& mini_;
  std::unique_ptr<engine::DecoderRunner> inner_;
  CheckingDrafter drafter_{*this};
  std::int64_t depths_ = 0;
  std::vector<RowOracle> oracles_;
  std::vector<std::vector<std::int32_t>> table_;  // by row
  std::vector<Window> windows_;
  std::int64_t compared_rows_ = 0;
  std::int64_t checked_windows_ = 0;
  std::string fault_;
};

}  // namespace inkstone::testing
