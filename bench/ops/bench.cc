// SPDX-License-Identifier: Apache-2.0
#include "bench/ops/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace inkstone::bench {
namespace {

constexpr std::int64_t kBlockBytes = 4 << 20;  // of random numbers; larger tensors repeat it
constexpr int kReplays = 11;

}  // namespace

void* Bench::empty(std::int64_t bytes) {
  auto buffer = backend_.allocate(bytes);
  INK_CHECK(buffer.has_value(), buffer ? std::string() : buffer.error().message);
  buffers_.push_back(*buffer);
  return buffers_.back().get();
}

void* Bench::repeat(const std::vector<std::byte>& block, std::int64_t bytes) {
  auto* memory = static_cast<std::byte*>(empty(bytes));
  const auto size = static_cast<std::int64_t>(block.size());
  backend_.upload(memory, block.data(), std::min(size, bytes), *stream_);
  for (std::int64_t filled = size; filled < bytes; filled *= 2) {
    backend_.copy(memory + filled, memory, std::min(filled, bytes - filled), *stream_);
  }
  stream_->wait();
  return memory;
}

void* Bench::bf16_numbers(std::int64_t count, float deviation) {
  std::mt19937_64 engine(1);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(2 * count, kBlockBytes)));
  for (std::size_t i = 0; i + 1 < block.size(); i += 2) {
    const BFloat16 value = to_bfloat16(normal(engine));
    std::memcpy(block.data() + i, &value, sizeof(value));
  }
  return repeat(block, 2 * count);
}

void* Bench::byte_numbers(std::int64_t count, int low, int high) {
  std::mt19937_64 engine(2);
  std::uniform_int_distribution<int> uniform(low, high);
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(count, kBlockBytes)));
  for (std::byte& byte : block) byte = static_cast<std::byte>(uniform(engine));
  return repeat(block, count);
}

TensorView Bench::integers(const std::vector<std::int32_t>& values, Shape shape) {
  void* memory = empty(static_cast<std::int64_t>(values.size() * sizeof(std::int32_t)));
  backend_.upload(memory, values.data(), static_cast<std::int64_t>(values.size() * sizeof(std::int32_t)),
                  *stream_);
  stream_->wait();
  return {memory, ScalarType::kI32, shape};
}

void Bench::time(const std::string& name, ops::Cost cost, int calls, const std::function<void(int)>& call) {
  const auto all = [&] {
    for (int i = 0; i < calls; ++i) call(i);
  };
  all();  // loads the kernels, sizes the scratch memory
  stream_->wait();
  const std::unique_ptr<ops::Graph> graph = backend_.capture(*stream_, all);
  graph->replay(*stream_);
  std::vector<double> seconds;
  for (int i = 0; i < kReplays; ++i) {
    seconds.push_back(backend_.time_seconds(*stream_, [&] { graph->replay(*stream_); }) / calls);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kReplays / 2, seconds.end());
  const double median = seconds[kReplays / 2];
  const double limit = std::max(cost.bytes / kPeakBytes, cost.flops / kPeakFlops);
  fmt::print("{:<58} {:>9.1f} us {:>7.0f} GB/s {:>6.1f} TFLOP/s {:>4.0f} % of the limit\n", name,
             median * 1e6, cost.bytes / median / 1e9, cost.flops / median / 1e12, 100 * limit / median);
  std::fflush(stdout);
}

}  // namespace inkstone::bench
