// SPDX-License-Identifier: Apache-2.0
// backends/cuda/capability.h - which kernels a GPU gets: decided from its compute capability alone, before
// anything is loaded. No CUDA headers: tested without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace inkstone::cuda {

struct Capability {
  int major = 0;
  int minor = 0;

  friend auto operator<=>(const Capability&, const Capability&) = default;
};

// What is known of a device before its use. Sizes in bytes.
struct DeviceInfo {
  int index = 0;
  std::string name;
  Capability capability;
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t shared_bytes_per_block = 0;  // with opt-in
  int driver_version = 0;                   // 13000 = 13.0
};

// One line of `doctor`: family and the kernel that serves it.
struct KernelChoice {
  std::string family;
  std::string kernel;
};

// Kernels for a device, or a refusal that names the capability and what this build holds. `built` are the
// capabilities with machine code in this binary ("90a" stands for exactly 9.0).
Result<std::vector<KernelChoice>> choose_kernels(const DeviceInfo& device,
                                                 const std::vector<Capability>& built);

}  // namespace inkstone::cuda
