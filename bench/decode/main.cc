// SPDX-License-Identifier: Apache-2.0
// decode_bench: the decode step of one rank of Inkling-NVFP4 with random weights, as the engine runs it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>

#include "backends/cuda/cuda_backend.h"
#include "bench/decode/kernel_trace.h"
#include "bench/decode/random_rank.h"
#include "engine/decoder_runner.h"

namespace {

using namespace inkstone;

constexpr double kPeakBytes = 4.5e12;  // measured: docs/measurements/h200.md
constexpr int kWarmSteps = 8;          // eager, recorded twice, and clocks up

struct Options {
  std::int64_t ranks = 8;
  std::int64_t context = 8192;
  std::vector<std::int64_t> sequences = {1};
  int steps = 50;
  bool eager = false;
};

// Every sequence decodes one token a step from the same position on, greedily.
class Stepper {
 public:
  Stepper(engine::DecoderRunner& runner, std::int64_t sequences, std::int64_t first_position)
      : runner_(runner), position_(static_cast<std::int32_t>(first_position)), rules_(params(), {}, {}) {
    for (engine::StepBatch& batch : batches_) fill(batch, static_cast<std::int32_t>(sequences));
    add_pages(batches_[0], static_cast<std::int32_t>(sequences));
  }

  void submit() {
    engine::StepBatch& batch = batches_[static_cast<std::size_t>(submitted_++) % batches_.size()];
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      batch.ids[i] = submitted_ == 1 ? 0 : engine::kLastDrawn;  // nothing has been drawn before
      batch.row_position[i] = batch.first_position[i] = position_;
      batch.draws[i].position = position_ + 1;
    }
    ++position_;
    const Status done = runner_.submit(batch);
    INK_CHECK(done.has_value(), done ? "" : done.error().message);
    batch.table_changes.clear();
    batch.table_entries.clear();
  }
  void collect() {
    const Status done = runner_.collect(drawn_);
    INK_CHECK(done.has_value() && drawn_[0].fault == ops::SampleFault::kNone, "finite logits");
  }
  // One step ahead, as the engine's loop does. Seconds of a step.
  double run(int steps) {
    const auto begin = std::chrono::steady_clock::now();
    submit();
    for (int i = 1; i < steps; ++i) {
      submit();
      collect();
    }
    collect();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / steps;
  }

 private:
  static sampling::SamplingParams params() {
    sampling::SamplingParams greedy;
    greedy.temperature = 0;
    greedy.seed = 1;
    return greedy;
  }
  void fill(engine::StepBatch& batch, std::int32_t sequences) const {
    batch.row_begin = {0};
    for (std::int32_t s = 0; s < sequences; ++s) {
      batch.ids.push_back(engine::kLastDrawn);
      batch.row_sequence.push_back(s);
      batch.row_position.push_back(0);
      batch.row_begin.push_back(s + 1);
      batch.first_position.push_back(0);
      batch.slots.push_back(s);
      batch.logit_rows.push_back(s);
      batch.logit_slots.push_back(s);
      batch.draws.push_back({&rules_, 0, 0, true, {}});
    }
    batch.step_rows = sequences;
    batch.max_sequence_rows = 1;
  }
  void add_pages(engine::StepBatch& batch, std::int32_t sequences) const {
    const auto pages = static_cast<std::int32_t>(pages_of(position_));
    for (std::int32_t s = 0; s < sequences; ++s) {
      batch.table_changes.push_back({s, 0, pages, s * pages});
      for (std::int32_t page = 0; page < pages; ++page) batch.table_entries.push_back(s * pages + page);
    }
  }

 public:
  static std::int64_t pages_of(std::int64_t position) { return cache::pages_for(position + 1024); }

 private:
  engine::DecoderRunner& runner_;
  std::int32_t position_;
  sampling::SequenceRules rules_;
  std::array<engine::StepBatch, 2> batches_;
  std::vector<sampling::SampledToken> drawn_;
  std::int64_t submitted_ = 0;
};

// Keys and values that a step reads.
std::int64_t state_bytes(const checkpoint::ModelConfig& config, std::int64_t context) {
  std::int64_t bytes = 0;
  for (std::int64_t layer = 0; layer < config.num_layers(); ++layer) {
    const checkpoint::AttentionShape& shape = config.attention(layer);
    const std::int64_t keys = shape.window > 0 ? std::min(shape.window, context) : context;
    bytes += keys * shape.kv_heads * shape.head_dim * 2 * 2;
  }
  return bytes;
}

void print_table(Stepper& stepper, double step_seconds) {
  constexpr int kSteps = 5;
  const bench::KernelTrace trace = bench::trace_kernels([&] { stepper.run(kSteps); });
  if (!trace.problem.empty()) fmt::print("  no table of kernels: {}\n", trace.problem);
  if (trace.kernels.empty()) return;
  double sum = 0;
  fmt::print("  {:<72}{:>7}{:>10}\n", "kernel, traced", "calls", "us/step");
  for (const bench::KernelTime& kernel : trace.kernels) {
    const double us = kernel.seconds * 1e6 / kSteps;
    sum += us;
    fmt::print("  {:<72}{:>7.1f}{:>10.1f}\n", kernel.name, static_cast<double>(kernel.calls) / kSteps, us);
  }
  const double span = trace.span_seconds * 1e6 / kSteps;
  fmt::print("  {:<72}{:>7}{:>10.1f}\n", "between kernels", "", span - sum);
  fmt::print("  {:<72}{:>7}{:>10.1f}\n", "the traced step", "", span);
  fmt::print("  {:<72}{:>7}{:>10.1f}\n", "the step without tracing", "", step_seconds * 1e6);
}

engine::EngineOptions engine_options(const Options& asked, std::int64_t sequences) {
  engine::EngineOptions options;
  options.max_context_tokens = asked.context + 1024;
  options.max_sequences = sequences;
  options.cache_tokens = sequences * Stepper::pages_of(asked.context) * 64;
  options.spare_slots = 0;
  options.checkpoint_bytes = options.swap_bytes = 0;
  options.token_budget = std::max<std::int64_t>(sequences, 8);
  options.record_steps = !asked.eager;
  return options;
}

// One kernel after the other (plain), or each beginning while the one before it ends.
enum class Launches { kOverlapped, kPlain };

void measure(const Options& asked, const checkpoint::ModelConfig& config, const bench::RandomRank& rank,
             cuda::GpuBackend& backend, std::int64_t sequences, Launches launches) {
  backend.overlap_launches(launches == Launches::kOverlapped);
  const sampling::TokenMask nothing(config.valid_vocabulary);
  auto runner = engine::DecoderRunner::create({&config, &rank.weights, &backend},
                                              engine_options(asked, sequences), nothing);
  INK_CHECK(runner.has_value(), runner ? "" : runner.error().message);
  bench::RandomMemory memory(backend);
  for (const TensorView& rows : (*runner)->storage().rows()) memory.fill_bf16(rows);
  Stepper stepper(**runner, sequences, asked.context);
  stepper.run(kWarmSteps);
  const double seconds = stepper.run(asked.steps);
  const double bytes = static_cast<double>(rank.step_bytes + sequences * state_bytes(config, asked.context));
  fmt::print(
      "{} sequences at {} tokens{}: {:.1f} us a step; {:.2f} GB to read once ({}): {:.0f} GB/s, {:.0f} % "
      "of the limit\n",
      sequences, asked.context, launches == Launches::kPlain ? ", plain launches" : "", seconds * 1e6,
      bytes / 1e9, sequences == 1 ? "all" : "experts as for one sequence", bytes / seconds / 1e9,
      100 * bytes / kPeakBytes / seconds);
  // Only kernels that follow each other have times that sum to the step.
  if (launches == Launches::kPlain) print_table(stepper, seconds);
  std::fflush(stdout);
}

int run(const Options& asked) {
  auto backend = cuda::make_backend(0);
  if (!backend) {
    fmt::print(stderr, "{}\n", backend.error().message);
    return 1;
  }
  const checkpoint::ModelConfig config = bench::inkling_rank(asked.ranks);
  bench::RandomMemory memory(**backend);
  const bench::RandomRank rank = bench::make_rank(config, memory);
  fmt::print(
      "{}: one rank of {} of Inkling-NVFP4, {} layers, {:.1f} GB of random weights; {}.\n"
      "Collectives are local no-ops: a rank's partial sums go on as they are, nothing is exchanged.\n",
      (*backend)->device().name, asked.ranks, config.num_layers(), static_cast<double>(memory.bytes()) / 1e9,
      asked.eager ? "eager steps" : "recorded steps");
  for (const std::int64_t sequences : asked.sequences) {
    for (const Launches launches : {Launches::kOverlapped, Launches::kPlain})
      measure(asked, config, rank, **backend, sequences, launches);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times the decode step of one tensor-parallel rank of Inkling-NVFP4.");
  Options options;
  app.add_option("--ranks", options.ranks, "tensor-parallel ranks: 1, 2, 4 or 8");
  app.add_option("--context", options.context, "tokens before the step");
  app.add_option("--sequences", options.sequences, "sequences of a step; several give several measurements");
  app.add_option("--steps", options.steps, "steps of a measurement");
  app.add_flag("--eager", options.eager, "one launch per kernel instead of a recording");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
