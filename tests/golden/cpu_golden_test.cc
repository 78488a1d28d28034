// SPDX-License-Identifier: Apache-2.0
// The goldens on the CPU backend, and its promise: bits that depend on nothing but the row.
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"
#include "tests/golden/golden_cases.h"

namespace inkstone::testing {
namespace {

struct CpuMini : MiniModel {
  explicit CpuMini(int threads, const std::string& folder = "inkling-mini",
                   std::int64_t expert_cache_bytes = 0)
      : MiniModel(folder) {
    backend = std::make_unique<cpu::CpuBackend>(threads, expert_cache_bytes);
  }
};

class CpuGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(CpuGolden, TrunkHiddenRowsAndAllHeadsAgreeWithTheReference) {
  const CpuMini mini(0);
  const std::vector<std::int32_t> ids = goldens().ints(GetParam() + ".input_ids");
  const model::ProbeResult result = mini.run(request_for(GetParam(), ids, {4096}, 8));
  expect_trunk(GetParam(), result);
  expect_hidden(GetParam(), result, mini.config.width);
  expect_heads(GetParam(), result);
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuGolden, ::testing::Values("short", "story", "needle1k", "needle3k"));

class CpuNvfp4Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(CpuNvfp4Golden, AgreesWithTheReference) {
  const CpuMini mini(0, "inkling-mini-nvfp4");
  const std::string name = "nvfp4." + GetParam();
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  expect_trunk(name, mini.run(request_for(name, ids, {4096}, 0)));
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuNvfp4Golden, ::testing::Values("short", "story", "needle1k"));

model::ProbeResult run_on(int threads, const std::string& folder, const std::string& name,
                          std::int64_t chunk) {
  const CpuMini mini(threads, folder);
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  model::ProbeRequest request = request_for(name, ids, {chunk}, folder == "inkling-mini" ? 8 : 0);
  request.all_choices = false;
  return mini.run(request);
}

void expect_same_bits(const model::ProbeResult& a, const model::ProbeResult& b) {
  EXPECT_EQ(a.logits, b.logits);
  EXPECT_EQ(a.hidden, b.hidden);
  ASSERT_EQ(a.mtp.size(), b.mtp.size());
  for (std::size_t depth = 0; depth < a.mtp.size(); ++depth)
    EXPECT_EQ(a.mtp[depth].last_logits, b.mtp[depth].last_logits);
}

TEST(CpuContract, ThreadsAndChunksGiveTheSameBits) {
  const model::ProbeResult whole = run_on(1, "inkling-mini", "needle1k", 4096);
  for (const std::int64_t chunk : {4096, 1, 7, 64, 129}) {
    for (const int threads : {1, 2})
      expect_same_bits(run_on(threads, "inkling-mini", "needle1k", chunk), whole);
  }
}

// One expert of the mini has 49152 bytes; a row chooses four of sixteen.
TEST(CpuContract, ExpertCachesOfAnySizeGiveTheSameBits) {
  for (const char* folder : {"inkling-mini", "inkling-mini-nvfp4"}) {
    const std::string name = folder == std::string("inkling-mini") ? "story" : "nvfp4.story";
    const model::ProbeResult whole = run_on(2, folder, name, 64);
    for (const std::int64_t bytes : {1, 100'000, 2'000'000}) {
      const CpuMini mini(2, folder, bytes);
      const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
      model::ProbeRequest request = request_for(name, ids, {64}, 0);
      request.all_choices = false;
      EXPECT_EQ(mini.run(request).logits, whole.logits) << folder << ' ' << bytes;
    }
  }
}

TEST(CpuContract, Nvfp4ChunksGiveTheSameBits) {
  const model::ProbeResult whole = run_on(2, "inkling-mini-nvfp4", "nvfp4.story", 4096);
  for (const std::int64_t chunk : {1, 3, 64})
    expect_same_bits(run_on(2, "inkling-mini-nvfp4", "nvfp4.story", chunk), whole);
}

TEST(CpuContract, EveryInstructionSetIsWithinTheTolerance) {
  for (const std::string& set : cpu::instruction_sets()) {
    ASSERT_TRUE(cpu::choose_instruction_set(set));
    const CpuMini mini(0);
    const std::vector<std::int32_t> ids = goldens().ints("story.input_ids");
    expect_trunk("story", mini.run(request_for("story", ids, {4096}, 0)));
  }
  ASSERT_TRUE(cpu::choose_instruction_set(""));
  EXPECT_FALSE(cpu::choose_instruction_set("AVX9"));
}

}  // namespace
}  // namespace inkstone::testing
