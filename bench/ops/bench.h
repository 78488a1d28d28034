// SPDX-License-Identifier: Apache-2.0
// bench/ops/bench.h - timing of one operation on the GPU: graph replay, buffers that rotate through more than
// the cache.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backends/cuda/cuda_backend.h"
#include "ops/cost.h"

namespace inkstone::bench {

// Rates measured on one H200, to give shares of.
inline constexpr double kPeakBytes = 4.5e12;
inline constexpr double kPeakFlops = 7.9e14;

class Bench {
 public:
  explicit Bench(cuda::GpuBackend& backend) : backend_(backend), stream_(backend.make_stream()) {}

  [[nodiscard]] cuda::GpuBackend& backend() { return backend_; }
  [[nodiscard]] ops::Stream& stream() { return *stream_; }
  // Memory filled with BF16 numbers of this deviation, or with bytes in [low, high]. Valid until forget().
  void* bf16_numbers(std::int64_t count, float deviation);
  void* byte_numbers(std::int64_t count, int low, int high);
  TensorView tensor(Shape shape, float deviation = 1) {
    return {bf16_numbers(shape.num_elements(), deviation), ScalarType::kBF16, shape};
  }
  TensorView integers(const std::vector<std::int32_t>& values, Shape shape);
  void* empty(std::int64_t bytes);
  void forget() { buffers_.clear(); }

  // Runs call(0) .. call(calls - 1) as one graph and prints the time of one call beside its cost. Calls
  // should differ in their large inputs, so that the caches do not hold them.
  void time(const std::string& name, ops::Cost cost, int calls, const std::function<void(int)>& call);

 private:
  void* repeat(const std::vector<std::byte>& block, std::int64_t bytes);

  cuda::GpuBackend& backend_;
  std::unique_ptr<ops::Stream> stream_;
  std::vector<ops::Buffer> buffers_;
};

void bench_linear(Bench& bench);
void bench_moe(Bench& bench);
void bench_attention(Bench& bench);

}  // namespace inkstone::bench
