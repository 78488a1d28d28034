// SPDX-License-Identifier: Apache-2.0
#include "base/cpus.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace inkstone {
namespace {

TEST(CpuList, NamesRangesAndSingleOnes) {
  EXPECT_EQ(parse_cpu_list("0-3,8\n"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), std::vector<int>{5});
  EXPECT_TRUE(parse_cpu_list("").empty());
  EXPECT_EQ(parse_cpu_list("1,x"), std::vector<int>{1});
}

// A tree of control groups as the system shows it.
class Groups : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = ::testing::TempDir() + "/cpus_test_XXXXXX";
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    root_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::filesystem::path root_;
};

TEST_F(Groups, TheLeastQuotaUpwardsCounts) {
  write("a/b/cpu.max", "350000 100000\n");
  write("a/cpu.max", "150000 100000\n");
  EXPECT_EQ(group_cpu_limit("0::/a/b\n", root_), 2);
  write("a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(group_cpu_limit("0::/a/b\n", root_), 1);
}

TEST_F(Groups, WithoutAQuotaThereIsNoLimit) {
  write("a/cpu.max", "max 100000\n");
  EXPECT_EQ(group_cpu_limit("0::/a\n", root_), std::nullopt);
  EXPECT_EQ(group_cpu_limit("", root_), std::nullopt);
  EXPECT_EQ(group_cpu_limit("nonsense\n", root_), std::nullopt);
}

TEST_F(Groups, TheOlderInterfaceCountsToo) {
  write("cpu,cpuacct/box/cpu.cfs_quota_us", "300000\n");
  write("cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  const std::string membership = "4:memory:/box\n3:cpuset:/box\n2:cpu,cpuacct:/box\n0::/\n";
  EXPECT_EQ(group_cpu_limit(membership, root_), 3);
  write("cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(group_cpu_limit(membership, root_), std::nullopt);
}

// In a container the path is often the host's, and the mount shows the process's own group as its root.
TEST_F(Groups, TheRootOfTheMountIsLookedAtAsWell) {
  write("cpu.max", "200000 100000\n");
  EXPECT_EQ(group_cpu_limit("0::/of/the/host\n", root_), 2);
}

TEST(AvailableCpus, FollowTheAffinityMask) {
  std::thread([] {
    const int cpu = allowed_cpus().front().front();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpu), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(available_cpus(), 1);
    EXPECT_EQ(allowed_cpus(), std::vector<std::vector<int>>{{cpu}});
    EXPECT_EQ(usable_threads(0), 1);
    EXPECT_EQ(usable_threads(64), 1);
  }).join();
}

}  // namespace
}  // namespace inkstone
