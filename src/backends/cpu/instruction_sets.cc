// SPDX-License-Identifier: Apache-2.0
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "backends/cpu/kernels.h"

namespace inkstone::cpu {
namespace {

// Targets that are compiled in and run here, best first: Highway numbers better ones lower.
std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> found;
  for (std::int64_t all = hwy::SupportedTargets() & HWY_TARGETS; all != 0; all &= all - 1)
    found.push_back(all & -all);
  return found;
}

// What the processor offers, before any choice of ours.
const std::vector<std::int64_t>& all_targets() {
  static const std::vector<std::int64_t> at_start = targets();
  return at_start;
}

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const std::int64_t target : all_targets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

std::string chosen_instruction_set() { return hwy::TargetName(targets().front()); }

bool choose_instruction_set(const std::string& name) {
  std::int64_t mask = 0;
  for (const std::int64_t target : all_targets()) {
    if (name.empty() || name == hwy::TargetName(target)) mask |= target;
  }
  if (mask == 0) return false;
  hwy::SetSupportedTargetsForTest(name.empty() ? 0 : mask);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

}  // namespace inkstone::cpu
