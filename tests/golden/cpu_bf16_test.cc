// SPDX-License-Identifier: Apache-2.0
// The explicit mode of BF16 activations on the CPU backend, within what the golden README grants it.
#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"
#include "tests/golden/golden_cases.h"

namespace inkstone::testing {
namespace {

constexpr double kWorst = 1e-1;
constexpr double kMedian = 1e-2;
constexpr double kEqualChoices = 0.95;
constexpr double kClearMargin = 5e-2;

struct CpuMini : MiniModel {
  CpuMini(int threads, bool rounds) : MiniModel("inkling-mini") {
    auto cpu = std::make_unique<cpu::CpuBackend>(threads);
    if (rounds) cpu->round_activations();
    backend = std::move(cpu);
  }
};

model::ProbeResult run(const std::string& name, bool rounds, int threads = 0, std::int64_t chunk = 4096) {
  const CpuMini mini(threads, rounds);
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  return mini.run(request_for(name, ids, {chunk}, 0));
}

// Of each row, the largest difference as a fraction of the largest golden logit; sorted.
std::vector<double> differences(const std::vector<float>& actual, const std::vector<float>& expected,
                                std::size_t width) {
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(static_cast<double>(value)));
  std::vector<double> rows;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (i % width == 0) rows.push_back(0);
    rows.back() = std::max(rows.back(), std::abs(static_cast<double>(actual[i]) - expected[i]) / largest);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

void expect_within_bf16(const std::string& name) {
  const model::ProbeResult rounded = run(name, true);
  const model::ProbeResult exact = run(name, false);
  const std::vector<float> expected = goldens().floats(name + ".logits_last");
  ASSERT_EQ(rounded.logits.size(), expected.size());
  const std::vector<double> rows = differences(
      rounded.logits, expected, static_cast<std::size_t>(goldens().tensor(name + ".logits_last").shape[1]));
  EXPECT_LE(rows.back(), kWorst) << name;
  EXPECT_LE(rows[(rows.size() - 1) / 2], kMedian) << name;
  EXPECT_GT(rows.back(), kGoldenTolerance) << name << ": nothing was rounded";

  const std::vector<std::int32_t> argmax = goldens().ints(name + ".argmax");
  ASSERT_EQ(rounded.choices.size(), argmax.size());
  float largest = 0;
  for (const model::Choice& choice : exact.choices) largest = std::max(largest, choice.best_logit);
  std::size_t equal = 0;
  for (std::size_t row = 0; row < argmax.size(); ++row) {
    if (rounded.choices[row].best == argmax[row]) {
      ++equal;
    } else {
      EXPECT_LE((exact.choices[row].best_logit - exact.choices[row].second_logit) / largest, kClearMargin)
          << name << " row " << row;
    }
  }
  EXPECT_GE(static_cast<double>(equal), kEqualChoices * static_cast<double>(argmax.size())) << name;
}

TEST(CpuBf16Activations, AgreeWithTheReferenceWithinTheirRounding) {
  for (const char* name : {"short", "story", "needle1k", "needle3k"}) expect_within_bf16(name);
}

TEST(CpuBf16Activations, AgreeWithoutTheDotProductAsWell) {
  for (const std::string& set : cpu::instruction_sets()) {
    ASSERT_TRUE(cpu::choose_instruction_set(set));
    expect_within_bf16("story");
  }
  ASSERT_TRUE(cpu::choose_instruction_set(""));
}

TEST(CpuBf16Activations, ThreadsAndChunksGiveTheSameBits) {
  const model::ProbeResult whole = run("needle1k", true, 1);
  for (const std::int64_t chunk : {4096, 1, 7, 64, 129}) {
    for (const int threads : {1, 2})
      EXPECT_EQ(run("needle1k", true, threads, chunk).logits, whole.logits) << chunk << ' ' << threads;
  }
}

}  // namespace
}  // namespace inkstone::testing
