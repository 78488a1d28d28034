// SPDX-License-Identifier: Apache-2.0
// base/cpus.h - the processors that this process may use: affinity, limits of its control groups, memory
// nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace inkstone {

// CPUs of the affinity mask by memory node, in order; one list where the system names no nodes. Never empty.
std::vector<std::vector<int>> allowed_cpus();

// How many CPUs the control groups of a process allow at a time: the least quota over its period from its own
// group upwards, rounded up. Nothing without a limit. `membership` is the text of /proc/self/cgroup, `root`
// where the groups are mounted; both versions of the interface are understood.
std::optional<int> group_cpu_limit(const std::string& membership, const std::string& root);

// Both together, at least 1.
int available_cpus();
// As many as wanted but no more than available_cpus(); all of them for 0.
int usable_threads(std::int64_t wanted);

// "0-3,8" to {0, 1, 2, 3, 8}, as the system writes sets of CPUs; what is no such list gives what was read
// before it.
std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace inkstone
