// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/expert_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "backends/cpu/expert_plan.h"

namespace inkstone::cpu {
namespace {

constexpr std::int64_t kExperts = 6;
constexpr std::int64_t kRows = 64;
constexpr std::int64_t kColumns = 128;

// Experts in a mapped file: w13 with alternating rows, then w2.
class MappedExperts : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/expert_cache_test_XXXXXX";
    const int file = mkstemp(path);
    ASSERT_GE(file, 0);
    unlink(path);
    values_.resize(static_cast<std::size_t>(kExperts * 3 * kRows * kColumns));
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<std::uint16_t>(i * 31);
    bytes_ = values_.size() * 2;
    ASSERT_EQ(write(file, values_.data(), bytes_), static_cast<ssize_t>(bytes_));
    memory_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
    ASSERT_NE(memory_, MAP_FAILED);
    close(file);
    auto* data = static_cast<std::byte*>(memory_);
    const MatrixBank w13 = MatrixBank::of({data, ScalarType::kBF16, {kExperts, 2 * kRows, kColumns}});
    w13_ = {w13.every(2, 0), w13.every(2, 1)};
    w2_ = MatrixBank::of(
        {data + kExperts * 2 * kRows * kColumns * 2, ScalarType::kBF16, {kExperts, kRows, kColumns}});
  }
  void TearDown() override { munmap(memory_, bytes_); }

  [[nodiscard]] std::vector<ExpertMemory> experts(const std::vector<std::int64_t>& ids) const {
    std::vector<ExpertMemory> all;
    for (const std::int64_t id : ids) all.push_back(ExpertMemory::of(w13_, w2_, id));
    return all;
  }
  void use(ExpertCache& cache, const std::vector<std::int64_t>& ids) const {
    const std::vector<ExpertMemory> all = experts(ids);
    for (std::size_t i = 0; i < all.size();) {
      const std::span<const ExpertMemory> rest = std::span(all).subspan(i);
      const std::size_t count = cache.fitting(rest);
      cache.begin_round(rest.first(count));
      for (std::size_t end = i + count; i < end; ++i) cache.wait(all[i]);
    }
  }

  std::vector<std::uint16_t> values_;
  std::size_t bytes_ = 0;
  void* memory_ = nullptr;
  GatedMatrix w13_;
  MatrixBank w2_;
};

constexpr std::int64_t kExpertBytes = 3 * kRows * kColumns * 2;

TEST_F(MappedExperts, RowsThatAlternateAreCountedOnce) { EXPECT_EQ(experts({0})[0].bytes(), kExpertBytes); }

TEST_F(MappedExperts, WhatWasUsedLongestAgoGoes) {
  ExpertCache cache(2 * kExpertBytes, 2);
  use(cache, {0, 1});
  use(cache, {0});
  use(cache, {2});  // in the place of 1
  use(cache, {0});
  EXPECT_EQ(cache.stats().misses, 3);
  EXPECT_EQ(cache.stats().hits, 2);
  use(cache, {1});
  EXPECT_EQ(cache.stats().misses, 4);
  EXPECT_EQ(cache.used_bytes(), 2 * kExpertBytes);
}

TEST_F(MappedExperts, ARoundNeverDropsItsOwnExperts) {
  ExpertCache cache(3 * kExpertBytes, 2);
  use(cache, {0, 1, 2});
  const std::vector<ExpertMemory> round = experts({0, 3, 4});
  cache.begin_round(round);
  for (const ExpertMemory& expert : round) cache.wait(expert);
  cache.begin_round(round);
  EXPECT_EQ(cache.stats().hits, 1 + 3);
}

TEST_F(MappedExperts, AStepWithMoreExpertsThanFitTakesRounds) {
  ExpertCache cache(2 * kExpertBytes, 2);
  EXPECT_EQ(cache.fitting(experts({0, 1, 2, 3, 4})), 2U);
  use(cache, {0, 1, 2, 3, 4});
  EXPECT_EQ(cache.stats().misses, 5);
  EXPECT_LE(cache.used_bytes(), 2 * kExpertBytes);
}

TEST_F(MappedExperts, OneExpertIsTakenHoweverSmallTheCache) {
  ExpertCache cache(1, 1);
  EXPECT_EQ(cache.fitting(experts({3, 4})), 1U);
}

TEST_F(MappedExperts, ValuesOutliveBeingDropped) {
  ExpertCache cache(kExpertBytes, 2);
  for (std::int64_t id = 0; id < kExperts; ++id) use(cache, {id});
  EXPECT_EQ(std::memcmp(memory_, values_.data(), bytes_), 0);
}

ExpertPlanInput plan_input() {
  return {.memory_limit_bytes = 1000,
          .fixed_bytes = 300,
          .other_bytes = 100,
          .expert_bytes = 10,
          .num_experts = 120,
          .experts_per_token = 12,
          .memory_bytes_per_second = 1000,
          .disk_bytes_per_second = 100};
}

TEST(ExpertPlan, WhatIsLeftOfTheMemoryHoldsExperts) {
  const auto plan = plan_experts(plan_input());
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->cache_bytes, 600);
  EXPECT_DOUBLE_EQ(plan->hit_share, 0.5);
  EXPECT_NEAR(plan->tokens_per_second, 1 / (0.3 + 0.6), 1e-9);  // half of 120 bytes come from the disk
}

TEST(ExpertPlan, AModelThatFitsReadsNothingFromTheDisk) {
  ExpertPlanInput input = plan_input();
  input.memory_limit_bytes = 10000;
  const auto plan = plan_experts(input);
  ASSERT_TRUE(plan.has_value());
  EXPECT_DOUBLE_EQ(plan->hit_share, 1);
  EXPECT_NEAR(plan->tokens_per_second, 1 / (0.3 + 0.12), 1e-9);
}

TEST(ExpertPlan, RefusesWithNumbersWhatHasNoRoomForAnExpert) {
  ExpertPlanInput input = plan_input();
  input.memory_limit_bytes = 409;
  const auto plan = plan_experts(input);
  ASSERT_FALSE(plan.has_value());
  EXPECT_NE(plan.error().message.find("409"), std::string::npos);
  EXPECT_NE(plan.error().message.find("410"), std::string::npos);
}

}  // namespace
}  // namespace inkstone::cpu
