// SPDX-License-Identifier: Apache-2.0
#include "bench/engine/engine_bench.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "bench/engine/stub_runner.h"
#include "engine/step_loop.h"

namespace inkstone::bench {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

constexpr std::int64_t kTokenBudget = 8192;

std::int64_t own_tokens(const EngineBenchOptions& options, std::int64_t context) {
  return context - static_cast<std::int64_t>(options.prefix_hit * static_cast<double>(context));
}

// The first sequence already decodes while the last one's prompt is computed, and must not end before the
// others.
std::int64_t answer_tokens(const EngineBenchOptions& options, std::int64_t sequences, std::int64_t context) {
  const std::int64_t prompt_steps =
      sequences * (1 + own_tokens(options, context) / (kTokenBudget - sequences));
  return options.steps + options.warmup_steps + 2 * prompt_steps + 64;
}

engine::EngineOptions engine_options(const EngineBenchOptions& options, std::int64_t sequences,
                                     std::int64_t context) {
  const std::int64_t answer = answer_tokens(options, sequences, context);
  engine::EngineOptions engine;
  engine.max_context_tokens = context + answer;
  engine.max_sequences = sequences;
  const std::int64_t own = own_tokens(options, context);
  engine.cache_tokens = 2 * context + sequences * (own + answer + 3 * cache::kPageTokens);
  engine.token_budget = kTokenBudget;
  engine.max_chunk_tokens = kTokenBudget;
  // The stub has no memory behind these numbers.
  const cache::StateLayout layout(stub_spec());
  engine.checkpoint_bytes = 1024 * (layout.host_window_bytes + layout.host_page_bytes);
  return engine;
}

class Run {
 public:
  Run(const EngineBenchOptions& options, std::int64_t sequences, std::int64_t context)
      : options_(options), context_(context), loop_(runner_, engine_options(options, sequences, context)) {
    row_.sequences = sequences;
    row_.context_tokens = context;
  }

  Result<EngineBenchRow> measure() {
    submit(0, 1);
    while (!channels_.front()->try_outcome()) INK_TRY(step());
    channels_.clear();
    started_.clear();
    num_started_ = 0;
    for (std::int64_t i = 0; i < row_.sequences; ++i)
      submit(static_cast<std::int32_t>(i + 1), answer_tokens(options_, row_.sequences, context_));
    const auto begin = Clock::now();
    while (num_started_ < row_.sequences) INK_TRY(step());
    row_.us_per_admission = us_since(begin) / static_cast<double>(row_.sequences);
    for (std::int64_t i = 0; i < options_.warmup_steps; ++i) INK_TRY(step());
    INK_TRY(time_steps());
    const auto prompts = static_cast<double>(row_.sequences * context_);
    row_.cached_share = static_cast<double>(loop_.stats().cached_tokens) / prompts;
    return row_;
  }

 private:
  // The shared part, then tokens of its own.
  void submit(std::int32_t own, std::int64_t max_tokens) {
    engine::Submission submission;
    const std::int64_t shared = context_ - own_tokens(options_, context_);
    for (std::int64_t i = 0; i < context_; ++i)
      submission.prompt.push_back(static_cast<std::int32_t>(i < shared ? i % 1000 : 1000 + own));
    submission.sampling.max_tokens = max_tokens;
    submission.sampling.seed = 1;
    submission.boundaries = {shared};
    channels_.push_back(std::make_shared<engine::RequestChannel>());
    started_.push_back(false);
    loop_.submit(std::move(submission), channels_.back(), context_ + max_tokens);
  }

  Status step() {
    const Result<bool> done = loop_.step();
    if (!done) return tl::unexpected(done.error());
    take_events();
    return {};
  }

  // What the waiting connections do, on threads of their own.
  void take_events() {
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      while (channels_[i]->try_next()) {
        if (!started_[i]) ++num_started_;
        started_[i] = true;
      }
    }
  }

  Status time_steps() {
    std::vector<double> times;
    times.reserve(static_cast<std::size_t>(options_.steps));
    const std::int64_t allocations = options_.allocations ? options_.allocations() : 0;
    const std::int64_t tokens = loop_.stats().generated_tokens;
    double sum = 0;
    for (std::int64_t i = 0; i < options_.steps; ++i) {
      const auto begin = Clock::now();
      const Result<bool> done = loop_.step();
      times.push_back(us_since(begin));
      if (!done) return tl::unexpected(done.error());
      sum += times.back();
      take_events();
    }
    if (options_.allocations) row_.allocations = options_.allocations() - allocations;
    const auto steps = static_cast<double>(options_.steps);
    row_.us_per_step = sum / steps;
    row_.steps_per_second = 1e6 * steps / sum;
    row_.tokens_per_second = 1e6 * static_cast<double>(loop_.stats().generated_tokens - tokens) / sum;
    std::ranges::sort(times);
    row_.us_per_step_p50 = times[times.size() / 2];
    row_.us_per_step_p99 = times[times.size() * 99 / 100];
    return {};
  }

  const EngineBenchOptions& options_;
  std::int64_t context_;
  StubRunner runner_;
  engine::StepLoop loop_;
  std::vector<std::shared_ptr<engine::RequestChannel>> channels_;
  std::vector<bool> started_;  // by channel: its first token has come
  std::int64_t num_started_ = 0;
  EngineBenchRow row_;
};

}  // namespace

Result<std::vector<EngineBenchRow>> bench_engine(const EngineBenchOptions& options) {
  std::vector<EngineBenchRow> rows;
  for (const std::int64_t context : options.context_tokens)
    for (const std::int64_t sequences : options.sequences)
      rows.push_back(INK_TRY(Run(options, sequences, context).measure()));
  return rows;
}

}  // namespace inkstone::bench
