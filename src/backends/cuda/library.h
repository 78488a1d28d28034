// SPDX-License-Identifier: Apache-2.0
// backends/cuda/library.h - what the shared object of the kernels offers to a program that loads it at run
// time, so that one program runs with and without CUDA.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/cuda_backend.h"

namespace inkstone::cuda {

inline constexpr const char* kLibraryFile = "libinkstone_cuda_kernels.so";
inline constexpr const char* kLibraryEntry = "inkstone_cuda_library";

// Both sides come from one build: `version` must be the program's.
struct Library {
  const char* version;
  std::vector<DeviceInfo> (*list_devices)();
  std::vector<Capability> (*built_capabilities)();
  Result<std::unique_ptr<GpuBackend>> (*make_backend)(int device_index);
};

// The object's only symbol that programs look up.
extern "C" const Library* inkstone_cuda_library();

}  // namespace inkstone::cuda
