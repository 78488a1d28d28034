// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/build_engine.h"
#include "app/commands/bench_cpu.h"
#include "app/console.h"
#include "app/loading/memory_limit.h"
#include "app/model_folder.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"
#include "base/thread_pool.h"
#include "bench/cpu/model_bench.h"
#include "bench/cpu/ops_bench.h"

namespace inkstone::app {
namespace {

using nlohmann::ordered_json;

// Without a tokenizer: checkpoints made for benches have none.
struct Loaded {
  checkpoint::Checkpoint checkpoint;
  model::ModelWeights weights;
  std::unique_ptr<ops::Backend> backend;
  std::optional<MemoryPlan> plan;

  [[nodiscard]] bench::ModelUnderTest parts() const {
    return {&checkpoint.config(), &weights, backend.get()};
  }
};

Result<std::unique_ptr<Loaded>> load(const CommonOptions& options) {
  std::unique_ptr<ops::Backend> backend = INK_TRY(make_backend(options));
  if (!backend->host_memory())
    return fail(ErrorKind::kUnsupported, "bench: this measurement is for backends on host memory");
  const std::string folder = INK_TRY(find_model(options.model));
  checkpoint::Checkpoint checkpoint = INK_TRY(checkpoint::Checkpoint::open(folder));
  model::ModelWeights weights = model::host_weights(checkpoint);
  std::optional<MemoryPlan> plan = INK_TRY(limit_memory(options, folder, checkpoint, weights, *backend));
  return std::make_unique<Loaded>(
      Loaded{std::move(checkpoint), std::move(weights), std::move(backend), plan});
}

int threads_of(const CommonOptions& options) { return usable_threads(options.threads); }

ordered_json seconds_json(const bench::Timings& timings) {
  return {{"best_ms", timings.best() * 1e3}, {"median_ms", timings.median() * 1e3}};
}

ordered_json machine_json(const BenchOptions& options) {
  return {{"backend", options.common.backend == "auto" ? automatic_backend() : options.common.backend},
          {"instructions", cpu::chosen_instruction_set()},
          {"threads", threads_of(options.common)}};
}

ordered_json cache_json(const Loaded& model, const bench::DecodeResult& result) {
  const cpu::ExpertCacheStats stats =
      dynamic_cast<const cpu::CpuBackend&>(*model.backend).expert_cache_stats();
  return {{"hits", stats.hits},
          {"misses", stats.misses},
          {"read_bytes", stats.read_bytes},
          {"wait_seconds", stats.wait_seconds},
          {"planned_tokens_per_second", model.plan->experts.tokens_per_second},
          {"seen_tokens_per_second", result.mean_tokens_per_second()},
          {"disk_bytes_per_second", model.plan->disk_bytes_per_second},
          {"share_of_disk_rate", result.disk_rate() / model.plan->disk_bytes_per_second}};
}

std::string cache_text(const MemoryPlan& plan, const bench::DecodeResult& result) {
  return fmt::format(
      "; from disk {:.2f} GB/s of its {:.2f} GB/s: {:.0f} %; {:.2f} tokens/s on average, planned {:.2f}",
      result.disk_rate() / 1e9, plan.disk_bytes_per_second / 1e9,
      100 * result.disk_rate() / plan.disk_bytes_per_second, result.mean_tokens_per_second(),
      plan.experts.tokens_per_second);
}

Status print_decode(const BenchOptions& options) {
  const std::unique_ptr<Loaded> model = INK_TRY(load(options.common));
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(options.prompt_tokens));
  for (std::size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = static_cast<std::int32_t>(
        (i * 7919 + 11) % static_cast<std::size_t>(model->checkpoint.config().valid_vocabulary));
  const bench::DecodeResult result = INK_TRY(bench::bench_decode(
      model->parts(), prompt, options.tokens > 0 ? options.tokens : 32, threads_of(options.common)));
  const auto bytes = static_cast<double>(result.bytes);
  ordered_json document = machine_json(options);
  document["bytes_per_token"] = result.bytes;
  document["step"] = seconds_json(result.step);
  document["read_of_as_many_bytes"] = seconds_json(result.read);
  document["tokens_per_second"] = 1 / result.step.median();
  document["share_of_read_bandwidth"] = {{"best", result.read.best() / result.step.best()},
                                         {"median", result.read.median() / result.step.median()}};
  document["ids"] = result.ids;
  if (model->plan) document["expert_cache"] = cache_json(*model, result);
  if (options.common.json) return print_json(document);
  return print_line(
      fmt::format(
          "decode: {:.2f} ms a token ({:.1f} tokens/s), {:.1f} GB/s of the {:.1f} GB/s that {} threads read: "
          "{:.0f} % (best {:.0f} %)",
          result.step.median() * 1e3, 1 / result.step.median(), bytes / result.step.median() / 1e9,
          bytes / result.read.median() / 1e9, threads_of(options.common),
          100 * result.read.median() / result.step.median(), 100 * result.read.best() / result.step.best()) +
      (model->plan ? cache_text(*model->plan, result) : ""));
}

Status print_prefill(const BenchOptions& options) {
  const std::int64_t tokens = options.tokens > 0 ? options.tokens : 512;
  const std::unique_ptr<Loaded> model = INK_TRY(load(options.common));
  const bench::PrefillResult result = INK_TRY(bench::bench_prefill(
      model->parts(), tokens, options.chunk, static_cast<int>(options.repeats), threads_of(options.common)));
  const double rate = result.flops / result.pass.best();
  ordered_json document = machine_json(options);
  document["tokens"] = tokens;
  document["chunk"] = options.chunk;
  document["pass"] = seconds_json(result.pass);
  document["tokens_per_second"] = static_cast<double>(tokens) / result.pass.best();
  document["product_gflops"] = rate / 1e9;
  std::string peer = "OpenBLAS is not installed";
  if (!result.peer.seconds.empty()) {
    const double peer_rate = result.peer_flops / result.peer.best();
    document["openblas_gflops"] = peer_rate / 1e9;
    document["share_of_openblas"] = rate / peer_rate;
    peer = fmt::format("{:.0f} % of OpenBLAS ({:.0f} GFLOP/s)", 100 * rate / peer_rate, peer_rate / 1e9);
  }
  if (options.common.json) return print_json(document);
  return print_line(
      fmt::format("prefill: {} tokens in {:.3f} s ({:.0f} tokens/s), products {:.0f} GFLOP/s, {}", tokens,
                  result.pass.best(), static_cast<double>(tokens) / result.pass.best(), rate / 1e9, peer));
}

ordered_json row_json(const bench::OpRow& row) {
  ordered_json document = {{"name", row.name},
                           {"op", seconds_json(row.op)},
                           {"gb_per_s", row.bytes / row.op.best() / 1e9},
                           {"gflops", row.flops / row.op.best() / 1e9},
                           {"share_of_read_bandwidth", row.read.best() / row.op.best()}};
  if (!row.peer.seconds.empty()) document["share_of_openblas"] = row.peer.best() / row.op.best();
  return document;
}

Status print_ops(const BenchOptions& options) {
  ordered_json document = machine_json(options);
  std::string text;
  for (const bench::OpRow& row : bench::bench_ops(options.family, threads_of(options.common))) {
    document["ops"].push_back(row_json(row));
    text += fmt::format("{:<40} {:>9.3f} ms {:>7.1f} GB/s {:>7.0f} GFLOP/s {:>4.0f} % of reading", row.name,
                        row.op.best() * 1e3, row.bytes / row.op.best() / 1e9, row.flops / row.op.best() / 1e9,
                        100 * row.read.best() / row.op.best());
    if (!row.peer.seconds.empty())
      text += fmt::format(" {:>4.0f} % of OpenBLAS", 100 * row.peer.best() / row.op.best());
    text += '\n';
  }
  return options.common.json ? print_json(document) : print(text);
}

}  // namespace

Status bench_cpu(const BenchOptions& options) {
  if (options.what == "decode") return print_decode(options);
  if (options.what == "prefill") return print_prefill(options);
  return print_ops(options);
}

}  // namespace inkstone::app
