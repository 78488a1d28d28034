// SPDX-License-Identifier: Apache-2.0
#include "bench/engine/decode_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <random>
#include <span>

#include "engine/step_loop.h"

namespace inkstone::bench {
namespace {

using Ids = std::vector<std::int32_t>;

// Counts and times of one depth, as differences.
struct Spent {
  double steps = 0;
  double tokens = 0;
  double verify_us = 0;
  double draft_us = 0;
  double drafted = 0;
  double accepted = 0;

  static Spent between(const engine::EngineStats& before, const engine::EngineStats& after) {
    const auto difference = [](std::int64_t a, std::int64_t b) { return static_cast<double>(b - a); };
    return {.steps = difference(before.rounds.steps, after.rounds.steps),
            .tokens = difference(before.speculation.emitted, after.speculation.emitted),
            .verify_us = after.rounds.verify_us - before.rounds.verify_us,
            .draft_us = after.rounds.draft_us - before.rounds.draft_us,
            .drafted = difference(before.speculation.drafted, after.speculation.drafted),
            .accepted = difference(before.speculation.accepted, after.speculation.accepted)};
  }
  void add(const Spent& other) {
    steps += other.steps;
    tokens += other.tokens;
    verify_us += other.verify_us;
    draft_us += other.draft_us;
    drafted += other.drafted;
    accepted += other.accepted;
  }
  [[nodiscard]] double us() const { return verify_us + draft_us; }
};

// One depth: its loop lives over all rounds, as an engine's would, so that `auto` has something to learn
// from.
class Contender {
 public:
  static Result<std::unique_ptr<Contender>> create(const DecodeBenchOptions& options,
                                                   const std::string& depth, bool apart = false) {
    auto made = std::make_unique<Contender>();
    made->options_ = &options;
    made->depth_ = depth;
    made->engine_ = options.engine;
    made->engine_.reuse_prefixes = false;
    made->engine_.split_rounds = apart;
    INK_TRY(engine::set_speculation(depth, options.drafter, options.num_heads, made->engine_));
    made->runner_ = INK_TRY(options.make_runner(made->engine_));
    made->loop_ = std::make_unique<engine::StepLoop>(*made->runner_, made->engine_);
    return made;
  }

  // One prompt by itself.
  Result<Ids> answer(std::size_t prompt, bool counts) {
    const engine::EngineStats before = loop_->stats();
    Ids ids = INK_TRY(answer_to(options_->prompts[prompt]));
    if (!counts) return ids;
    spent_.add(Spent::between(before, loop_->stats()));
    return ids;
  }

  [[nodiscard]] const std::string& depth() const { return depth_; }
  // Whether verifying and drafting are one time.
  [[nodiscard]] bool joined() const {
    return engine_.draft_rows > 0 && !engine_.adaptive_depth && !engine_.split_rounds &&
           runner_->drafter() != nullptr && runner_->drafts_with_step();
  }
  [[nodiscard]] DecodeBenchRow row() const {
    const double steps = std::max(1.0, spent_.steps);
    return {.depth = depth_,
            .tokens_per_step = spent_.tokens / steps,
            .verify_us = spent_.verify_us / steps,
            .draft_us = spent_.draft_us / steps,
            .us_per_token = spent_.us() / std::max(1.0, spent_.tokens),
            .drafted_per_step = spent_.drafted / steps,
            .acceptance = spent_.accepted / std::max(1.0, spent_.drafted)};
  }

 private:
  Result<Ids> answer_to(const Ids& prompt) {
    engine::Submission submission;
    submission.prompt = prompt;
    submission.end_ids = options_->end_ids;
    submission.sampling.temperature = options_->temperature;
    submission.sampling.seed = 1;
    submission.sampling.max_tokens = options_->max_tokens;
    const auto channel = std::make_shared<engine::RequestChannel>();
    const auto most = static_cast<std::int64_t>(prompt.size()) + options_->max_tokens;
    loop_->submit(std::move(submission), channel, most);
    while (!channel->try_outcome()) INK_TRY(loop_->step());
    Ids ids;
    while (const auto event = channel->try_next()) ids.push_back(event->id);
    if (channel->try_outcome()->reason == engine::FinishReason::kFailed)
      return tl::unexpected(channel->try_outcome()->error);
    return ids;
  }

  const DecodeBenchOptions* options_ = nullptr;
  std::string depth_;
  engine::EngineOptions engine_;
  std::unique_ptr<engine::ModelRunner> runner_;
  std::unique_ptr<engine::StepLoop> loop_;
  Spent spent_;
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

// Each time in another order: who always comes behind the deepest drafts finds the caches emptied by them.
Status answer_all(Contenders& contenders, std::span<const std::size_t> order, std::size_t prompt,
                  bool counts) {
  std::optional<Ids> expected;
  for (const std::size_t i : order) {
    Contender& contender = *contenders[i];
    Ids ids = INK_TRY(contender.answer(prompt, counts));
    if (!expected) expected = ids;
    if (ids != *expected)
      return fail(ErrorKind::kFailed, fmt::format("--speculate {} changes an answer", contender.depth()));
  }
  return {};
}

Status time_apart(const DecodeBenchOptions& options, DecodeBenchRow& row) {
  Contenders one;
  one.push_back(INK_TRY(Contender::create(options, row.depth, true)));
  for (std::int64_t round = 0; round < 3; ++round)
    for (std::size_t prompt = 0; prompt < options.prompts.size(); ++prompt)
      INK_TRY(answer_all(one, std::array<std::size_t, 1>{0}, prompt, round > 0));
  const DecodeBenchRow apart = one.front()->row();
  row.verify_us = apart.verify_us;
  row.draft_us = apart.draft_us;
  row.timed_apart = true;
  return {};
}

}  // namespace

Result<std::vector<DecodeBenchRow>> bench_decode(const DecodeBenchOptions& options) {
  std::vector<std::string> depths = options.depths;
  std::erase(depths, "0");
  depths.insert(depths.begin(), "0");
  Contenders contenders;
  for (const std::string& depth : depths) contenders.push_back(INK_TRY(Contender::create(options, depth)));
  std::vector<std::size_t> order(contenders.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937 random(1);
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    for (std::size_t prompt = 0; prompt < options.prompts.size(); ++prompt) {
      std::ranges::shuffle(order, random);
      INK_TRY(answer_all(contenders, order, prompt, round >= options.learning_rounds));
    }
  }
  std::vector<DecodeBenchRow> rows;
  for (const auto& contender : contenders) {
    rows.push_back(contender->row());
    if (contender->joined()) INK_TRY(time_apart(options, rows.back()));
    rows.back().gain = rows.front().us_per_token / std::max(1e-9, rows.back().us_per_token);
  }
  return rows;
}

}  // namespace inkstone::bench
