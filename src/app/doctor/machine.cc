// SPDX-License-Identifier: Apache-2.0
#include "app/doctor/machine.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/thread_pool.h"

namespace inkstone::app {
namespace {

// The value of the first line "KEY<blanks>: VALUE" of a file of the kernel; empty when there is none.
std::string value_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t value = line.find_first_not_of(" \t", std::min(colon, line.size() - 1) + 1);
    return colon == std::string::npos || value == std::string::npos ? std::string() : line.substr(value);
  }
  return {};
}

std::int64_t leading_number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The compiler's run-time detection also asks whether the system saves the registers.
std::vector<std::string> instruction_sets() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  const auto add = [&](const char* name, bool present) {
    if (present) found.emplace_back(name);
  };
  add("avx2", __builtin_cpu_supports("avx2") != 0);
  add("fma", __builtin_cpu_supports("fma") != 0);
  add("f16c", __builtin_cpu_supports("f16c") != 0);
  add("avx512f", __builtin_cpu_supports("avx512f") != 0);
  add("avx512bw", __builtin_cpu_supports("avx512bw") != 0);
  add("avx512vl", __builtin_cpu_supports("avx512vl") != 0);
  add("avx512vnni", __builtin_cpu_supports("avx512vnni") != 0);
  add("avx512bf16", __builtin_cpu_supports("avx512bf16") != 0);
#elif defined(__aarch64__)
  found.emplace_back("neon");
#endif
  return found;
}

std::int64_t physical_bytes() {
  const std::int64_t machine = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::string limit;
  std::getline(file, limit);
  const std::int64_t group = leading_number(limit);  // "max" gives 0
  return group > 0 ? std::min(machine, group) : machine;
}

std::int64_t count_gpus() {
  std::error_code error;
  const std::filesystem::directory_iterator entries("/proc/driver/nvidia/gpus", error);
  return error ? 0 : std::distance(entries, std::filesystem::directory_iterator());
}

}  // namespace

Machine look_at_machine() {
  Machine machine;
  machine.cpu = value_in("/proc/cpuinfo", "model name");
  if (machine.cpu.empty()) machine.cpu = "unknown";
  machine.instructions = instruction_sets();
  machine.threads = available_cpus();
  machine.memory_bytes = physical_bytes();
  machine.available_bytes = 1024 * leading_number(value_in("/proc/meminfo", "MemAvailable"));
  machine.nvidia_gpus = count_gpus();
  return machine;
}

}  // namespace inkstone::app
