// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/expert_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
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
    const int file = mkstemp(path_.data());
    ASSERT_GE(file, 0);
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
  void TearDown() override {
    munmap(memory_, bytes_);
    unlink(path_.c_str());
  }
  [[nodiscard]] std::vector<SourceFile> file() const {
    return {{path_, {static_cast<const std::byte*>(memory_), bytes_}}};
  }

  [[nodiscard]] std::vector<ExpertView> experts(const std::vector<std::int64_t>& ids) const {
    std::vector<ExpertView> all;
    for (const std::int64_t id : ids) all.push_back(ExpertView::of(w13_, w2_, id));
    return all;
  }
  void use(ExpertCache& cache, const std::vector<std::int64_t>& ids) const {
    const std::vector<ExpertView> all = experts(ids);
    for (std::size_t i = 0; i < all.size();) {
      const std::span<const ExpertView> rest = std::span(all).subspan(i);
      const std::size_t count = cache.fitting(rest);
      cache.begin_round(rest.first(count));
      for (std::size_t end = i + count; i < end; ++i) cache.wait(all[i]);
    }
  }

  // Every weight of an expert as the cache shows it is that of the file.
  void expect_values(const ExpertView& here, std::int64_t id) const {
    const ExpertView there = ExpertView::of(w13_, w2_, id);
    const auto expect_same = [&](const MatrixBank& a, const MatrixBank& b) {
      EXPECT_NE(a.data, b.data);
      for (std::int64_t row = 0; row < b.rows; ++row)
        EXPECT_EQ(std::memcmp(a.row(0, row), b.row(0, row), kColumns * 2), 0) << id << ' ' << row;
    };
    expect_same(here.w13.gate, there.w13.gate);
    expect_same(here.w13.up, there.w13.up);
    expect_same(here.w2, there.w2);
  }

  std::string path_ = "/tmp/expert_cache_test_XXXXXX";
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
  const std::vector<ExpertView> round = experts({0, 3, 4});
  cache.begin_round(round);
  for (const ExpertView& expert : round) cache.wait(expert);
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

TEST_F(MappedExperts, ValuesAreThoseOfTheFileHoweverTheyAreRead) {
  for (const auto& files : {file(), std::vector<SourceFile>(), std::vector<SourceFile>{{"/nowhere", {}}}}) {
    ExpertCache cache(2 * kExpertBytes, 2, files);
    for (const std::int64_t id : {0, 1, 2, 1, 5, 0}) {
      const std::vector<ExpertView> one = experts({id});
      cache.begin_round(one);
      expect_values(cache.wait(one[0]), id);
    }
    EXPECT_EQ(cache.stats().misses, 5);
  }
}

// Weights that begin and end within a page, as after a header of any length.
TEST_F(MappedExperts, RangesNeedNotBeginAtAPage) {
  const auto* data = static_cast<const std::byte*>(memory_) + 1234;
  const MatrixBank w13 =
      MatrixBank::of({const_cast<std::byte*>(data), ScalarType::kBF16, {kExperts - 1, 2 * kRows, kColumns}});
  w13_ = {w13.slice_rows(0, kRows), w13.slice_rows(kRows, kRows)};
  w2_ = MatrixBank::of({const_cast<std::byte*>(data) + (kExperts - 1) * 2 * kRows * kColumns * 2,
                        ScalarType::kBF16,
                        {kExperts - 1, kRows, kColumns}});
  ExpertCache cache(4 * kExpertBytes, 3, file());
  const std::vector<ExpertView> all = experts({4, 0, 2});
  cache.begin_round(all);
  for (std::size_t i = 0; i < all.size(); ++i) expect_values(cache.wait(all[i]), std::array{4, 0, 2}[i]);
}

// What the file no longer gives comes from the mapping.
TEST_F(MappedExperts, AFileThatEndsEarlyIsNoHarm) {
  const std::string other = path_ + ".short";
  const int descriptor = open(other.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(write(descriptor, values_.data(), 5000), 5000);
  close(descriptor);
  ExpertCache cache(2 * kExpertBytes, 1, {{other, file()[0].bytes}});
  const std::vector<ExpertView> one = experts({3});
  cache.begin_round(one);
  expect_values(cache.wait(one[0]), 3);
  unlink(other.c_str());
}

TEST_F(MappedExperts, SlotsOfOneSizeServeAnother) {
  ExpertCache cache(3 * kExpertBytes, 1, file());
  use(cache, {0, 1, 2});
  const GatedMatrix whole = w13_;
  w13_ = {whole.gate.slice_rows(0, kRows / 2), whole.up.slice_rows(0, kRows / 2)};
  w2_ = w2_.slice_rows(0, kRows / 2);
  const std::vector<ExpertView> half = experts({3, 4, 5});
  cache.begin_round(half);
  for (std::size_t i = 0; i < half.size(); ++i) expect_values(cache.wait(half[i]), 3 + static_cast<int>(i));
  EXPECT_LE(cache.used_bytes(), 3 * kExpertBytes);
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
