// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/launch.h"

namespace inkstone::cuda {

Scratch::~Scratch() {
  for (void* block : blocks_) cudaFree(block);  // at exit the context may be gone already
}

std::byte* Scratch::reserve(std::int64_t bytes, cudaStream_t stream) {
  if (bytes > capacity_bytes_) {
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    INK_CUDA(cudaStreamIsCapturing(stream, &capturing));
    INK_CHECK(capturing == cudaStreamCaptureStatusNone,
              "scratch grows before capture: run the step once eagerly");
    // Doubling keeps the sum of abandoned blocks below the size of the last one.
    const std::int64_t grown = bytes > 2 * capacity_bytes_ ? bytes : 2 * capacity_bytes_;
    void* block = nullptr;
    INK_CUDA(cudaMalloc(&block, static_cast<std::size_t>(grown)));
    blocks_.push_back(block);
    capacity_bytes_ = grown;
  }
  return static_cast<std::byte*>(blocks_.back());
}

}  // namespace inkstone::cuda
