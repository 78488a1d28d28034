// SPDX-License-Identifier: Apache-2.0
#include "app/self_check.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <vector>

namespace inkstone::app {
namespace {

constexpr std::int64_t kRows = 3;      // T
constexpr std::int64_t kColumns = 64;  // K
constexpr std::int64_t kOutputs = 32;  // N

// In -2..2, so that a sum of 64 products stays below 256: exact in bf16 too.
int input_at(std::int64_t row, std::int64_t column) {
  return static_cast<int>((row * 3 + column * 7) % 5) - 2;
}
int weight_at(std::int64_t output, std::int64_t column) {
  return static_cast<int>((output + column * 5) % 3) - 1;
}

int expected(std::int64_t row, std::int64_t output) {
  int sum = 0;
  for (std::int64_t k = 0; k < kColumns; ++k) sum += input_at(row, k) * weight_at(output, k);
  return sum;
}

// A matrix of the given numbers in the backend's memory.
template <class At>
Result<ops::Buffer> upload(ops::Backend& backend, ops::Stream& stream, const TensorView& shape, At at) {
  std::vector<std::byte> host(static_cast<std::size_t>(shape.bytes()));
  for (std::int64_t row = 0; row < shape.shape[0]; ++row) {
    for (std::int64_t column = 0; column < shape.shape[1]; ++column) {
      const auto value = static_cast<float>(at(row, column));
      const BFloat16 half = to_bfloat16(value);
      const bool wide = shape.type == ScalarType::kF32;
      const std::size_t size = wide ? sizeof value : sizeof half;
      const auto index = static_cast<std::size_t>(row * shape.shape[1] + column);
      std::memcpy(host.data() + index * size, wide ? static_cast<const void*>(&value) : &half, size);
    }
  }
  ops::Buffer buffer = INK_TRY(backend.allocate(shape.bytes()));
  backend.upload(buffer.get(), host.data(), shape.bytes(), stream);
  stream.wait();
  return buffer;
}

}  // namespace

Status check_product(ops::Backend& backend) {
  const std::unique_ptr<ops::Stream> stream = backend.make_stream();
  TensorView x(nullptr, backend.activation_type(), {kRows, kColumns});
  TensorView weight(nullptr, ScalarType::kBF16, {kOutputs, kColumns});
  TensorView out(nullptr, ScalarType::kF32, {kRows, kOutputs});
  const ops::Buffer x_memory = INK_TRY(upload(backend, *stream, x, input_at));
  const ops::Buffer weight_memory = INK_TRY(upload(backend, *stream, weight, weight_at));
  const ops::Buffer out_memory = INK_TRY(backend.allocate(out.bytes()));
  x.data = x_memory.get();
  weight.data = weight_memory.get();
  out.data = out_memory.get();

  const std::array<MatrixBank, 1> weights = {MatrixBank::of(weight)};
  ops::LinearArgs args;
  args.x = x;
  args.weights = weights;
  args.out = out;
  backend.linear(args, *stream);
  std::vector<float> result(static_cast<std::size_t>(kRows * kOutputs));
  backend.download(result.data(), out.data, out.bytes(), *stream);
  stream->wait();
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / kOutputs;
    const auto output = static_cast<std::int64_t>(i) % kOutputs;
    if (result[i] != static_cast<float>(expected(row, output)))
      return fail(ErrorKind::kFailed, fmt::format("product [{}, {}] is {}, not {}", row, output, result[i],
                                                  expected(row, output)));
  }
  return {};
}

}  // namespace inkstone::app
