// SPDX-License-Identifier: Apache-2.0
#include "app/doctor/self_check.h"

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

// Bytes in the backend's memory.
Result<ops::Buffer> upload(ops::Backend& backend, ops::Stream& stream, const void* host, std::size_t bytes) {
  ops::Buffer buffer = INK_TRY(backend.allocate(static_cast<std::int64_t>(bytes)));
  backend.upload(buffer.get(), host, static_cast<std::int64_t>(bytes), stream);
  stream.wait();
  return buffer;
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
  return upload(backend, stream, host.data(), host.size());
}

// NVFP4 weights with every code beside every other one, in scales that are powers of two.
struct Codes {
  static constexpr std::int64_t kColumns = 512;
  static constexpr float kFactor = 0.25F;

  std::array<std::uint8_t, kOutputs * kColumns / 2> values{};
  std::array<std::uint8_t, kOutputs * kColumns / MatrixBank::kColumnsPerScale> scales{};

  Codes() {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 37 % 256);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::uint8_t>((6 + i % 3) << 3);
  }
  [[nodiscard]] double at(std::int64_t output, std::int64_t column) const {
    const std::int64_t index = output * kColumns + column;
    const std::uint8_t pair = values[static_cast<std::size_t>(index / 2)];
    const std::uint8_t scale = scales[static_cast<std::size_t>(index / MatrixBank::kColumnsPerScale)];
    return static_cast<double>(e2m1_to_float(static_cast<std::uint8_t>(pair >> (4 * (column % 2))))) *
           static_cast<double>(e4m3_to_float(scale) * kFactor);
  }
};

// Computes the product of `weight` with the rows of input_at and compares it with `expected_at`.
template <class At>
Status compare_product(ops::Backend& backend, ops::Stream& stream, const MatrixBank& weight, At expected_at) {
  TensorView x(nullptr, backend.activation_type(), {kRows, weight.columns});
  TensorView out(nullptr, ScalarType::kF32, {kRows, kOutputs});
  const ops::Buffer x_memory = INK_TRY(upload(backend, stream, x, input_at));
  const ops::Buffer out_memory = INK_TRY(backend.allocate(out.bytes()));
  x.data = x_memory.get();
  out.data = out_memory.get();
  ops::LinearArgs args;
  args.x = x;
  args.weights = {&weight, 1};
  args.out = out;
  backend.linear(args, stream);
  std::vector<float> result(static_cast<std::size_t>(kRows * kOutputs));
  backend.download(result.data(), out.data, out.bytes(), stream);
  stream.wait();
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / kOutputs;
    const auto output = static_cast<std::int64_t>(i) % kOutputs;
    if (result[i] != static_cast<float>(expected_at(row, output)))
      return fail(ErrorKind::kFailed, fmt::format("product [{}, {}] is {}, not {}", row, output, result[i],
                                                  expected_at(row, output)));
  }
  return {};
}

}  // namespace

Status check_product(ops::Backend& backend) {
  const std::unique_ptr<ops::Stream> stream = backend.make_stream();
  TensorView weight(nullptr, ScalarType::kBF16, {kOutputs, kColumns});
  const ops::Buffer memory = INK_TRY(upload(backend, *stream, weight, weight_at));
  weight.data = memory.get();
  return compare_product(backend, *stream, MatrixBank::of(weight), expected);
}

Status check_nvfp4_product(ops::Backend& backend) {
  const std::unique_ptr<ops::Stream> stream = backend.make_stream();
  const Codes codes;
  const ops::Buffer values = INK_TRY(upload(backend, *stream, codes.values.data(), codes.values.size()));
  const ops::Buffer scales = INK_TRY(upload(backend, *stream, codes.scales.data(), codes.scales.size()));
  const ops::Buffer factor = INK_TRY(upload(backend, *stream, &Codes::kFactor, sizeof Codes::kFactor));
  MatrixBank weight;
  weight.data = values.get();
  weight.type = ScalarType::kU8;
  weight.rows = kOutputs;
  weight.columns = Codes::kColumns;
  weight.row_stride_bytes = Codes::kColumns / 2;
  weight.bank_stride_bytes = weight.rows * weight.row_stride_bytes;
  weight.scales = reinterpret_cast<const std::uint8_t*>(scales.get());
  weight.scale_row_stride_bytes = Codes::kColumns / MatrixBank::kColumnsPerScale;
  weight.scale_bank_stride_bytes = weight.rows * weight.scale_row_stride_bytes;
  weight.scale2 = reinterpret_cast<const float*>(factor.get());
  return compare_product(backend, *stream, weight, [&](std::int64_t row, std::int64_t output) {
    double sum = 0;
    for (std::int64_t k = 0; k < Codes::kColumns; ++k) sum += input_at(row, k) * codes.at(output, k);
    return sum;
  });
}

}  // namespace inkstone::app
