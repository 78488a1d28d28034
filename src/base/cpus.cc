// SPDX-License-Identifier: Apache-2.0
#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

namespace inkstone {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Nothing where a file is missing, or says "max" or -1.
std::optional<double> quota_in(const std::string& folder) {
  double quota = 0;
  double period = 0;
  if (std::istringstream both(text_of(folder + "/cpu.max")); both >> quota >> period && period > 0)
    return quota / period;
  std::istringstream quota_text(text_of(folder + "/cpu.cfs_quota_us"));
  std::istringstream period_text(text_of(folder + "/cpu.cfs_period_us"));
  if (quota_text >> quota && period_text >> period && quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

// Whether a list of controllers such as "cpu,cpuacct" holds that of CPU time.
bool counts_cpus(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string one; std::getline(list, one, ',');) {
    if (one == "cpu") return true;
  }
  return false;
}

bool runs_here(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 && cpu < CPU_SETSIZE &&
         CPU_ISSET(static_cast<std::size_t>(cpu), &set);
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream list(text);
  int first = 0;
  while (list >> first) {
    int last = first;
    if (list.peek() == '-') {
      list.get();
      if (!(list >> last)) break;
    }
    for (int cpu = first; cpu <= std::min(last, first + CPU_SETSIZE); ++cpu) cpus.push_back(cpu);
    if (list.get() != ',') break;
  }
  return cpus;
}

std::vector<std::vector<int>> allowed_cpus() {
  std::vector<std::vector<int>> nodes;
  for (const int node : parse_cpu_list(text_of("/sys/devices/system/node/online"))) {
    std::vector<int> cpus =
        parse_cpu_list(text_of("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist"));
    std::erase_if(cpus, [](int cpu) { return !runs_here(cpu); });
    if (!cpus.empty()) nodes.push_back(std::move(cpus));
  }
  if (!nodes.empty()) return nodes;
  std::vector<int> all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (runs_here(cpu)) all.push_back(cpu);
  }
  if (all.empty()) all.push_back(0);
  return {all};
}

std::optional<int> group_cpu_limit(const std::string& membership, const std::string& root) {
  double least = std::numeric_limits<double>::infinity();
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && !counts_cpus(controllers)) continue;
    const std::string mount = unified ? root : root + "/" + controllers;
    // A path may be the host's, of which a container sees the end only: its upper parts are looked at as
    // well.
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (const auto quota = quota_in(mount + path)) least = std::min(least, *quota);
      if (path.find('/') == std::string::npos) break;
    }
  }
  if (!std::isfinite(least)) return std::nullopt;
  return std::max(1, static_cast<int>(std::ceil(least)));
}

int available_cpus() {
  int cpus = 0;
  for (const std::vector<int>& node : allowed_cpus()) cpus += static_cast<int>(node.size());
  const std::optional<int> limit = group_cpu_limit(text_of("/proc/self/cgroup"), "/sys/fs/cgroup");
  return std::max(1, limit ? std::min(cpus, *limit) : cpus);
}

int usable_threads(std::int64_t wanted) {
  const int all = available_cpus();
  return wanted > 0 ? static_cast<int>(std::min<std::int64_t>(wanted, all)) : all;
}

}  // namespace inkstone
