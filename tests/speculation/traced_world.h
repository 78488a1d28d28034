// SPDX-License-Identifier: Apache-2.0
// tests/speculation/traced_world.h - the loop with drafts at no cost: a runner whose answers and whose right
// drafts were recorded (tests/data/speculation/README.md), in a world where rows and passes take what a test
// says.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/model_runner.h"

namespace inkstone::testing {

// One recorded answer.
struct DraftTrace {
  double temperature = 0;
  std::int64_t prompt_tokens = 0;
  std::string right;  // digit i: right drafts of eight behind the first i + 1 tokens of the answer

  // Its tokens, with the end token.
  [[nodiscard]] std::int64_t length() const {
    return prompt_tokens + static_cast<std::int64_t>(right.size()) + 1;
  }
};

inline std::vector<DraftTrace> draft_traces() {
  std::ifstream file(INKSTONE_SOURCE_DIR "/tests/data/speculation/traces.txt");
  std::vector<DraftTrace> traces;
  DraftTrace trace;
  while (file >> trace.temperature >> trace.prompt_tokens >> trace.right) traces.push_back(trace);
  INK_CHECK(!traces.empty(), "recorded drafts");
  return traces;
}

// What things take.
struct World {
  double verify_base_us = 0;
  double verify_row_us = 0;
  double draft_pass_us = 0;
  double draft_row_us = 0;
  double noise = 0;    // up to this share more or less
  double spikes = 0;   // share of the times that are five times as long
  double slowing = 0;  // how much longer everything seems to take after a thousand rounds

  // How much longer takes a round of which a device has not yet recorded something: a step of about as many
  // rows, as many passes of about as many sequences, twice each. The step seems to take all of it, and its
  // drafts nothing: they are there when the host asks.
  double first_us = 0;

  bool drafts_with_step = false;

  double mood_us = 0;  // for so long the machine is fast, then for as long slow: what things cost then
  double slow_base = 1;
  double slow_row = 1;

  [[nodiscard]] double verify_us(std::int64_t rows, bool slow) const {
    return cost_us(verify_base_us, verify_row_us, rows, slow);
  }
  [[nodiscard]] double draft_us(std::int64_t passes, std::int64_t rows, bool slow) const {
    return static_cast<double>(passes) * cost_us(draft_pass_us, draft_row_us, rows, slow);
  }
  [[nodiscard]] double cost_us(double base, double row, std::int64_t rows, bool slow) const {
    return base * (slow ? slow_base : 1) + row * static_cast<double>(rows) * (slow ? slow_row : 1);
  }
};

// What is measured is not quite what it took.
class WorldClock {
 public:
  explicit WorldClock(const World& world) : world_(world) {}
  void pass(double us) {
    const double slower = 1 + world_.slowing * static_cast<double>(times_++) / 2000;
    spent_us_ += us;
    double measured = us * slower * (1 + world_.noise * (2 * share() - 1));
    if (share() < world_.spikes) measured *= 5;
    now_us_ += measured;
  }
  // What is over some day: measured, but not spent.
  void pass_once(double us) { now_us_ += us; }
  void pass_unseen(double us) { spent_us_ += us; }
  [[nodiscard]] bool slow() const {
    return world_.mood_us > 0 && std::fmod(spent_us_, 2 * world_.mood_us) > world_.mood_us;
  }
  [[nodiscard]] double now_us() const { return now_us_; }
  [[nodiscard]] double spent_us() const { return spent_us_; }

 private:
  double share() {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<double>(state_ >> 8) / static_cast<double>(1U << 24);
  }

  World world_;
  double now_us_ = 0;
  double spent_us_ = 0;
  std::int64_t times_ = 0;
  std::uint32_t state_ = 1;
};

// Token `position` of the text of trace t is (t + 1) * 4096 + position, so that a token tells the next; the
// last one is kEnd, and a wrong draft is kWrong.
class TracedRunner final : public engine::ModelRunner {
 public:
  static constexpr std::int32_t kStride = 4096;
  static constexpr std::int32_t kEnd = 7;
  static constexpr std::int32_t kWrong = 0;

  TracedRunner(std::span<const DraftTrace> traces, const World& world, WorldClock& clock, std::int64_t depths)
      : traces_(traces), world_(world), clock_(clock), depths_(depths) {
    spec_.groups.push_back({"kv", 0, 1, ScalarType::kF32, 0, 0});
  }

  static std::vector<std::int32_t> prompt_of(std::size_t trace, const DraftTrace& recorded) {
    std::vector<std::int32_t> ids;
    for (std::int32_t p = 0; p < recorded.prompt_tokens; ++p)
      ids.push_back((static_cast<std::int32_t>(trace) + 1) * kStride + p);
    return ids;
  }

  [[nodiscard]] const model::StateSpec& state_spec() const override { return spec_; }
  [[nodiscard]] std::int64_t steps_ahead() const override { return 0; }
  [[nodiscard]] std::int64_t first_runs() const override { return tells_first_runs ? first_runs_ : 0; }
  bool tells_first_runs = true;
  [[nodiscard]] speculative::Drafter* drafter() override { return depths_ > 0 ? &drafter_ : nullptr; }
  Status copy_state(std::span<const cache::RowCopy>) override { return {}; }
  Status submit(const engine::StepBatch& batch) override {
    first_ = batch.step_rows > 0 && comes_first(0, batch.step_rows);
    if (batch.step_rows > 0)
      clock_.pass(world_.verify_us(batch.step_rows, clock_.slow()));  // rows of prompts are free
    drawn_.clear();
    for (const std::int32_t row : batch.logit_rows)
      drawn_.push_back({.id = behind(batch.ids[static_cast<std::size_t>(row)]),
                        .fault = {},
                        .logprob = 0,
                        .top_ids = {},
                        .top_logprobs = {}});
    draft_with_step(batch);
    return {};
  }
  Status collect(std::vector<sampling::SampledToken>& drawn) override {
    drawn = drawn_;
    return {};
  }
  [[nodiscard]] bool drafts_with_step() const override { return world_.drafts_with_step && depths_ > 0; }
  Status collect_drafts(std::vector<speculative::WindowDrafts>& drafts) override {
    const double us = world_.draft_us(window_passes_, window_rows_, clock_.slow());
    if (first_) {
      clock_.pass_unseen(us);
    } else {
      clock_.pass(us);
    }
    drafts = window_drafts_;
    return {};
  }

 private:
  class TracedDrafter final : public speculative::Drafter {
   public:
    explicit TracedDrafter(TracedRunner& runner) : runner_(runner) {}
    [[nodiscard]] std::int64_t max_depth() const override { return runner_.depths_; }
    [[nodiscard]] bool keeps_state() const override { return true; }
    Status draft(std::span<const speculative::DraftRequest> requests,
                 std::vector<speculative::Drafts>& drafts) override {
      std::int64_t passes = 0;
      std::int64_t rows = 0;
      drafts.assign(requests.size(), {});
      for (std::size_t i = 0; i < requests.size(); ++i) {
        passes = std::max(passes, requests[i].heads.depths);
        rows += requests[i].heads.end - requests[i].heads.begin;
        drafts[i] = runner_.drafts_behind(requests[i].tokens.back(), requests[i].max_drafts);
      }
      runner_.clock_.pass(runner_.world_.draft_us(passes, rows, runner_.clock_.slow()));
      return {};
    }

   private:
    TracedRunner& runner_;
  };

  void draft_with_step(const engine::StepBatch& batch) {
    window_passes_ = window_rows_ = 0;
    window_drafts_.clear();
    for (const speculative::WindowRequest& window : batch.windows) {
      auto row = static_cast<std::size_t>(batch.row_begin[static_cast<std::size_t>(window.sequence)]);
      speculative::WindowDrafts& own = window_drafts_.emplace_back();
      for (; own.num_right < window.fed_drafts && batch.ids[row + 1] == behind(batch.ids[row]); ++row)
        ++own.num_right;
      own.drafts = drafts_behind(behind(batch.ids[row]), window.num_drafts);
      window_passes_ = std::max(window_passes_, window.heads.depths);
      window_rows_ += window.heads.depths + 1;
    }
    if (!batch.windows.empty()) first_ |= comes_first(window_passes_, std::ssize(batch.windows));
    if (first_) clock_.pass_once(world_.first_us);
  }

  // So many passes, 0 for a step, of about as many sequences or rows.
  bool comes_first(std::int64_t passes, std::int64_t count) {
    const auto exact = static_cast<std::uint64_t>(count);
    if (world_.first_us == 0 || times_[{passes, exact <= 16 ? exact : std::bit_ceil(exact)}]++ >= 2)
      return false;
    ++first_runs_;
    return true;
  }

  [[nodiscard]] const DraftTrace& trace_of(std::int32_t id) const {
    return traces_[static_cast<std::size_t>(id / kStride - 1)];
  }
  [[nodiscard]] std::int32_t behind(std::int32_t id) const {
    if (id < kStride) return kWrong;
    return id % kStride + 2 == trace_of(id).length() ? kEnd : id + 1;
  }
  [[nodiscard]] speculative::Drafts drafts_behind(std::int32_t id, std::int64_t count) const {
    speculative::Drafts drafts;
    if (id < kStride) return drafts;  // brings the rows of an ended answer up to date
    const DraftTrace& trace = trace_of(id);
    const std::size_t answered = static_cast<std::size_t>(id % kStride - trace.prompt_tokens);
    const std::int64_t right = trace.right[answered] - '0';
    for (std::int32_t next = behind(id); static_cast<std::int64_t>(drafts.size()) < count;
         next = behind(next))
      drafts.push_back(static_cast<std::int64_t>(drafts.size()) < right ? next : kWrong);
    return drafts;
  }

  std::span<const DraftTrace> traces_;
  World world_;
  WorldClock& clock_;
  std::int64_t depths_;
  std::map<std::pair<std::int64_t, std::uint64_t>, int> times_;  // of what there is to record
  std::vector<speculative::WindowDrafts> window_drafts_;
  std::int64_t window_passes_ = 0;
  std::int64_t window_rows_ = 0;
  bool first_ = false;  // something of the round
  std::int64_t first_runs_ = 0;
  model::StateSpec spec_;
  TracedDrafter drafter_{*this};
  std::vector<sampling::SampledToken> drawn_;
};

}  // namespace inkstone::testing
