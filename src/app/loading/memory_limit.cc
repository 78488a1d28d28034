// SPDX-License-Identifier: Apache-2.0
#include "app/loading/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "app/console.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/expert_plan.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "bench/cpu/machine_rates.h"
#include "bench/cpu/model_bench.h"

namespace inkstone::app {
namespace {

// Measured in a moment: enough to leave the caches, little beside what a token reads.
constexpr std::int64_t kProbeBytes = std::int64_t{128} << 20;
constexpr std::int64_t kDiskProbeBytes = std::int64_t{512} << 20;
constexpr std::int64_t kDiskPieceBytes = std::int64_t{4} << 20;
constexpr int kDiskReaders = 4;
// Of the limit, for state and activations.
constexpr std::int64_t kReservedPart = 16;

std::string largest_file(const std::string& folder) {
  std::string largest;
  std::uintmax_t size = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(folder, error)) {
    if (!file.is_regular_file(error) || file.file_size(error) < size) continue;
    size = file.file_size(error);
    largest = file.path().string();
  }
  return largest;
}

cpu::ExpertPlanInput weights_of(const checkpoint::ModelConfig& config, const model::ModelWeights& weights,
                                ops::Backend& backend) {
  cpu::ExpertPlanInput input;
  input.fixed_bytes = bench::bytes_per_token({&config, &weights, &backend});
  for (const model::BlockWeights& layer : weights.layers) {
    if (!layer.moe) continue;
    const auto expert = cpu::ExpertView::of(layer.moe->routed_w13, layer.moe->routed_w2, 0);
    const std::int64_t bytes = expert.bytes();
    input.expert_bytes = std::max(input.expert_bytes, expert.slot_bytes());
    input.num_experts += config.routed_experts;
    input.experts_per_token += config.chosen_experts;
    input.fixed_bytes -= config.chosen_experts * bytes;
  }
  return input;
}

}  // namespace

Result<std::optional<MemoryPlan>> limit_memory(const CommonOptions& options, const std::string& folder,
                                               const checkpoint::Checkpoint& checkpoint,
                                               const model::ModelWeights& weights, ops::Backend& backend) {
  if (options.memory_limit == 0) return std::nullopt;
  auto* const cpu = dynamic_cast<cpu::CpuBackend*>(&backend);
  if (cpu == nullptr) return fail(ErrorKind::kUnsupported, "--memory-limit: of the CPU backend only");
  const int threads = usable_threads(options.threads);
  cpu::ExpertPlanInput input = weights_of(checkpoint.config(), weights, backend);
  input.memory_limit_bytes = options.memory_limit;
  input.other_bytes = options.memory_limit / kReservedPart;
  input.memory_bytes_per_second = bench::ReadProbe(threads, kProbeBytes).pass();
  const auto disk =
      bench::disk_read_rate(largest_file(folder), kDiskPieceBytes, kDiskReaders, kDiskProbeBytes);
  input.disk_bytes_per_second = disk.value_or(input.memory_bytes_per_second);
  const cpu::ExpertPlan plan = INK_TRY(cpu::plan_experts(input));
  log::info(fmt::format(
      "memory limit {}: {} for what every token reads, {} for experts, {:.0f} % of them; memory reads "
      "{}/s, the disk {}/s; {:.2f} tokens/s expected",
      spell_bytes(options.memory_limit), spell_bytes(input.fixed_bytes), spell_bytes(plan.cache_bytes),
      100 * plan.hit_share, spell_bytes(static_cast<std::int64_t>(input.memory_bytes_per_second)),
      spell_bytes(static_cast<std::int64_t>(input.disk_bytes_per_second)), plan.tokens_per_second));
  std::vector<cpu::SourceFile> files;
  for (const auto& [path, bytes] : checkpoint.files()) files.push_back({path, bytes});
  cpu->keep_experts_within(plan.cache_bytes, files);
  return MemoryPlan{plan, input.disk_bytes_per_second};
}

}  // namespace inkstone::app
