// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/capability.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace inkstone::cuda {
namespace {

// The attention kernels' tiles (attention/flash.cuh); checked against the kernel's own size when it is
// compiled.
constexpr std::int64_t kAttentionSharedBytes = 98'048;
constexpr int kMinimumDriver = 13'000;

std::string built_list(const std::vector<Capability>& built) {
  std::vector<std::string> names;
  for (const Capability& one : built) names.push_back(fmt::format("{}.{}", one.major, one.minor));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<std::vector<KernelChoice>> choose_kernels(const DeviceInfo& device,
                                                 const std::vector<Capability>& built) {
  // Architecture-specific code ("a") runs on exactly the capability that it was made for.
  if (std::find(built.begin(), built.end(), device.capability) == built.end()) {
    return fail(
        ErrorKind::kUnsupported,
        fmt::format("GPU {} ({}) has compute capability {}.{}; this build has kernels for {}", device.index,
                    device.name, device.capability.major, device.capability.minor, built_list(built)));
  }
  if (device.driver_version < kMinimumDriver) {
    return fail(
        ErrorKind::kUnsupported,
        fmt::format("the driver supports CUDA {}.{}; {}.{} is needed", device.driver_version / 1000,
                    device.driver_version % 1000 / 10, kMinimumDriver / 1000, kMinimumDriver % 1000 / 10));
  }
  if (device.shared_bytes_per_block < kAttentionSharedBytes) {
    return fail(ErrorKind::kUnsupported,
                fmt::format("GPU {} gives a block {} bytes of shared memory; attention needs {}",
                            device.index, device.shared_bytes_per_block, kAttentionSharedBytes));
  }
  return std::vector<KernelChoice>{
      {"linear, gated_linear", "mma m16n8k16, weights as A, 16-row stripes"},
      {"moe", "the same, grouped by expert; NVFP4 decoded in registers (W4A16)"},
      {"attention, step rows", "mma tiles of 64 keys, splits at multiples of 64 keys"},
      {"attention, prefill rows", "mma tiles of 64 keys x 64 packed rows"}};
}

}  // namespace inkstone::cuda
