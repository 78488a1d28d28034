// SPDX-License-Identifier: Apache-2.0
// backends/cuda/primitives/overlap.cuh - kernels that begin while the one before them still runs
// (programmatic dependent launch): what they read first must not come from it.
//
// The rule of this backend: a kernel that is launched by start_overlapped() calls wait_for_previous() on
// every path and before its first write, and begin_next() only behind that. So never more than two kernels of
// a stream are under way, and before its wait a kernel may read whatever the launch right before it does not
// write: weights, tables of the batch, state of older positions.
#pragma once

#include "backends/cuda/launch.h"

namespace inkstone::cuda {

// Returns when everything earlier in the stream is complete and visible. At once in a kernel that was
// launched plainly.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Once all blocks have called this, the next kernel's blocks may take what room is left.
__device__ __forceinline__ void begin_next() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct LaunchShape {
  dim3 grid;
  int threads;
  std::int64_t shared_bytes = 0;  // dynamic
  // One split of shared memory and L1 for most kernels of a step: a multiprocessor must be idle to change it.
  int carveout = cudaSharedmemCarveoutMaxShared;
};

template <class Problem, class... Arguments>
void start_overlapped(void (*kernel)(Problem, Arguments...), const LaunchShape& shape, const Launch& launch,
                      const Problem& problem, Arguments... arguments) {
  INK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, shape.carveout));
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = launch.overlaps ? 1 : 0;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  config.stream = launch.stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  INK_CUDA(cudaLaunchKernelEx(&config, kernel, problem, arguments...));
}

}  // namespace inkstone::cuda
