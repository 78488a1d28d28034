// SPDX-License-Identifier: Apache-2.0
// backends/cuda/launch.h - what every launch needs: the queue, the scratch memory, the error check.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "tensor/tensor_view.h"

// A device fault is not recoverable: the context is gone. Names the call and CUDA's reason, then aborts.
#define INK_CUDA(call)                                                                     \
  do {                                                                                     \
    const cudaError_t ink_status = (call);                                                 \
    if (ink_status != cudaSuccess) [[unlikely]]                                            \
      ::inkstone::check_failed(__FILE__, __LINE__, #call, cudaGetErrorString(ink_status)); \
  } while (false)

namespace inkstone::cuda {

// Device memory that lives within one operation of one stream: expert tables, attention partials. Operations
// of a stream follow each other, those of two streams do not: each stream has its own. Grows outside graph
// capture only; memory that was handed out once stays, because graphs captured from the stream point to it.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();

  // At least `bytes`, aligned to 256. The next call may return the same memory.
  std::byte* reserve(std::int64_t bytes, cudaStream_t stream);
  // A counter that is zero before each operation and that the operation leaves at zero: the last of its
  // blocks to arrive finds out by it that it is the last.
  unsigned* arrivals(cudaStream_t stream);

 private:
  void* allocate(std::int64_t bytes, cudaStream_t stream);

  std::vector<void*> blocks_;
  unsigned* arrivals_ = nullptr;
  std::int64_t capacity_bytes_ = 0;
};

struct Launch {
  cudaStream_t stream = nullptr;
  Scratch& scratch;
  bool overlaps = true;          // kernels may begin before the one before them ends (primitives/overlap.cuh)
  bool forgets_maximum = false;  // GpuBackend::forget_maximum
};

constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// True where a row can be read 16 bytes at a time.
inline bool is_vectorised(const TensorView& view) {
  const std::int64_t per_vector = 16 / size_bytes(view.type);
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.row_stride % per_vector == 0 &&
         view.row_elements() % per_vector == 0;
}

// The same for a vector of weights, read 16 bytes at a time.
inline void expect_bf16_weights(const TensorView& view) {
  INK_CHECK(view.type == ScalarType::kBF16 && reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
                view.shape[0] % 8 == 0,
            "weights are BF16, aligned to 16 bytes");
}

inline void expect_vectorised(const TensorView& view) {
  INK_CHECK(view.rows() == 0 || is_vectorised(view), "rows are aligned to 16 bytes");
}

// Activations of this backend are BF16 and read as vectors; anything else is a fault of the caller.
inline void expect_bf16(const TensorView& view) {
  INK_CHECK(view.type == ScalarType::kBF16, "activations on CUDA are BF16");
  expect_vectorised(view);
}

// The most shared memory that the step kernels ask for; a block of sm_90 gets 227 KB, its static part
// included.
inline constexpr std::int64_t kMaxStagedBytes = std::int64_t{208} * 1024;

template <class Kernel>
void allow_shared_memory(Kernel* kernel, std::int64_t bytes) {
  INK_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
}

// After every launch: a configuration that the device refuses shows here.
inline void check_launch() { INK_CUDA(cudaGetLastError()); }

}  // namespace inkstone::cuda
