// SPDX-License-Identifier: Apache-2.0
#include "bench/engine/decode_bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/step_loop.h"

namespace inkstone::bench {
namespace {

using Texts = std::vector<std::vector<std::int32_t>>;

// One depth: its loop lives over all rounds, as an engine's would, so that `auto` has something to learn
// from.
class Contender {
 public:
  static Result<std::unique_ptr<Contender>> create(const DecodeBenchOptions& options,
                                                   const std::string& depth) {
    auto made = std::make_unique<Contender>();
    made->options_ = &options;
    made->row_.depth = depth;
    made->engine_ = options.engine;
    made->engine_.reuse_prefixes = false;
    INK_TRY(engine::set_speculation(depth, options.drafter, options.num_heads, made->engine_));
    made->runner_ = INK_TRY(options.make_runner(made->engine_));
    made->loop_ = std::make_unique<engine::StepLoop>(*made->runner_, made->engine_);
    return made;
  }

  // Every prompt by itself.
  Result<Texts> round() {
    const engine::EngineStats before = loop_->stats();
    Texts texts;
    for (const auto& prompt : options_->prompts) texts.push_back(INK_TRY(answer(prompt)));
    keep_fastest(before, loop_->stats());
    return texts;
  }

  [[nodiscard]] DecodeBenchRow& row() { return row_; }

 private:
  Result<std::vector<std::int32_t>> answer(const std::vector<std::int32_t>& prompt) {
    engine::Submission submission;
    submission.prompt = prompt;
    submission.end_ids = options_->end_ids;
    submission.sampling.temperature = 0;
    submission.sampling.seed = 1;
    submission.sampling.max_tokens = options_->max_tokens;
    const auto channel = std::make_shared<engine::RequestChannel>();
    const auto most = static_cast<std::int64_t>(prompt.size()) + options_->max_tokens;
    loop_->submit(std::move(submission), channel, most);
    while (!channel->try_outcome()) INK_TRY(loop_->step());
    std::vector<std::int32_t> ids;
    while (const auto event = channel->try_next()) ids.push_back(event->id);
    if (channel->try_outcome()->reason == engine::FinishReason::kFailed)
      return tl::unexpected(channel->try_outcome()->error);
    return ids;
  }

  void keep_fastest(const engine::EngineStats& before, const engine::EngineStats& after) {
    const auto steps = static_cast<double>(after.rounds.steps - before.rounds.steps);
    const auto tokens = static_cast<double>(after.speculation.emitted - before.speculation.emitted);
    const double verify_us = after.rounds.verify_us - before.rounds.verify_us;
    const double draft_us = after.rounds.draft_us - before.rounds.draft_us;
    const double us_per_token = (verify_us + draft_us) / std::max(1.0, tokens);
    if (row_.us_per_token > 0 && us_per_token >= row_.us_per_token) return;
    const auto drafted = static_cast<double>(after.speculation.drafted - before.speculation.drafted);
    const auto accepted = static_cast<double>(after.speculation.accepted - before.speculation.accepted);
    row_.us_per_token = us_per_token;
    row_.tokens_per_step = tokens / std::max(1.0, steps);
    row_.verify_us = verify_us / std::max(1.0, steps);
    row_.draft_us = draft_us / std::max(1.0, steps);
    row_.drafted_per_step = drafted / std::max(1.0, steps);
    row_.acceptance = drafted > 0 ? accepted / drafted : 0;
  }

  const DecodeBenchOptions* options_ = nullptr;
  engine::EngineOptions engine_;
  std::unique_ptr<engine::ModelRunner> runner_;
  std::unique_ptr<engine::StepLoop> loop_;
  DecodeBenchRow row_;
};

}  // namespace

Result<std::vector<DecodeBenchRow>> bench_decode(const DecodeBenchOptions& options) {
  std::vector<std::string> depths = options.depths;
  std::erase(depths, "0");
  depths.insert(depths.begin(), "0");
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const std::string& depth : depths) contenders.push_back(INK_TRY(Contender::create(options, depth)));
  Texts expected;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    for (const auto& contender : contenders) {
      Texts texts = INK_TRY(contender->round());
      if (expected.empty()) expected = texts;
      if (texts != expected)
        return fail(ErrorKind::kFailed,
                    fmt::format("--speculate {} changes an answer", contender->row().depth));
    }
  }
  std::vector<DecodeBenchRow> rows;
  for (const auto& contender : contenders) {
    rows.push_back(contender->row());
    rows.back().gain = rows.front().us_per_token / std::max(1e-9, rows.back().us_per_token);
  }
  return rows;
}

}  // namespace inkstone::bench
