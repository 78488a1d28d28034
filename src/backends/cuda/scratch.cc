// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/launch.h"

namespace inkstone::cuda {

Scratch::~Scratch() {
  cudaFree(arrivals_);
  for (void* block : blocks_) cudaFree(block);  // at exit the context may be gone already
}

void* Scratch::allocate(std::int64_t bytes, cudaStream_t stream) {
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  INK_CUDA(cudaStreamIsCapturing(stream, &capturing));
  INK_CHECK(capturing == cudaStreamCaptureStatusNone,
            "scratch grows before capture: run the step once eagerly");
  void* block = nullptr;
  INK_CUDA(cudaMalloc(&block, static_cast<std::size_t>(bytes)));
  return block;
}

std::byte* Scratch::reserve(std::int64_t bytes, cudaStream_t stream) {
  if (bytes > capacity_bytes_) {
    // Doubling keeps the sum of abandoned blocks below the size of the last one.
    const std::int64_t grown = bytes > 2 * capacity_bytes_ ? bytes : 2 * capacity_bytes_;
    blocks_.push_back(allocate(grown, stream));
    capacity_bytes_ = grown;
  }
  return static_cast<std::byte*>(blocks_.back());
}

unsigned* Scratch::arrivals(cudaStream_t stream) {
  if (arrivals_ == nullptr) {
    arrivals_ = static_cast<unsigned*>(allocate(sizeof(unsigned), stream));
    INK_CUDA(cudaMemsetAsync(arrivals_, 0, sizeof(unsigned), stream));
  }
  return arrivals_;
}

}  // namespace inkstone::cuda
