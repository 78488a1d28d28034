// SPDX-License-Identifier: Apache-2.0
// tests/conformance/rig.h - one operation on two backends, the reference and a subject, over the same random
// inputs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/backend.h"
#include "tensor/matrix_bank.h"

namespace inkstone::conformance {

// A tensor that owns host memory. Uninitialised memory is all ones: NaN in every floating type, -1 in
// integers.
struct HostTensor {
  std::vector<std::byte> bytes;
  ScalarType type = ScalarType::kF32;
  Shape shape;

  HostTensor() = default;
  HostTensor(ScalarType scalar, Shape sizes);
  [[nodiscard]] TensorView view();
  [[nodiscard]] float at(std::int64_t index) const;  // widened, row-major
  void set(std::int64_t index, float value);         // rounded to the type
  [[nodiscard]] std::int64_t size() const { return shape.num_elements(); }
};

// Weights as a checkpoint stores them, in host memory.
struct HostBank {
  HostTensor values, scales, scale2, input_amax;
  MatrixBank bank;
};

class Random {
 public:
  // Draw numbers that BF16 holds, whatever type they are stored in.
  static inline bool draws_bf16 = false;

  explicit Random(std::uint64_t seed) : engine_(seed) {}
  float normal(float deviation) { return std::normal_distribution<float>(0, deviation)(engine_); }
  std::int64_t below(std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(engine_);
  }

  HostTensor tensor(ScalarType type, Shape shape, float deviation = 1);
  HostTensor integers(Shape shape, std::int64_t limit);
  HostBank bf16_bank(std::int64_t banks, std::int64_t rows, std::int64_t columns, float deviation);
  HostBank nvfp4_bank(std::int64_t banks, std::int64_t rows, std::int64_t columns, float deviation);

 private:
  std::mt19937_64 engine_;
};

// A backend with its stream, and the memory that one test gave it.
class Side {
 public:
  Side(std::string name, std::shared_ptr<ops::Backend> backend)
      : name_(std::move(name)), backend_(std::move(backend)), stream_(backend_->make_stream()) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] ops::Backend& backend() { return *backend_; }
  [[nodiscard]] ops::Stream& stream() { return *stream_; }
  // A copy in this backend's memory, valid until forget().
  TensorView put(HostTensor& tensor);
  MatrixBank put(HostBank& bank);
  GatedMatrix put(HostBank& gate, HostBank& up) { return {put(gate), put(up)}; }
  HostTensor get(const TensorView& view);  // contiguous copy; waits
  void forget();

 private:
  std::byte* copy_of(const std::byte* data, std::size_t bytes);

  std::string name_;
  std::shared_ptr<ops::Backend> backend_;
  std::unique_ptr<ops::Stream> stream_;
  std::vector<ops::Buffer> buffers_;
};

// Names of the backends of this build that can run here: "reference" always.
std::vector<std::string> present_backends();
// Made once per process.
Side& side(const std::string& name);
// Plants, or takes back, GpuBackend::forget_maximum; false where the backend has no splits.
bool forget_maximum(Side& side, bool on);
// The number type in which a backend's activations are compared with the reference.
ScalarType activation_of(const std::string& name);
// Whether the backend takes f32 activations and rounds them to BF16 itself. It is given numbers that this
// leaves alone, so that what is compared is all the rest.
bool rounds_inputs(const std::string& name);

// |a - b| <= relative * |b| + absolute at every element, b being the reference; the message names the first
// that differs. NaN never passes.
::testing::AssertionResult near(const HostTensor& a, const HostTensor& b, float relative, float absolute);
// The same bytes; the message names the first element that differs.
::testing::AssertionResult same_bits(const HostTensor& a, const HostTensor& b);

// Rounding of one result to BF16 (half a unit in the last of 8 bits), twice: either side may round the other
// way.
inline constexpr float kBf16Rounding = 1.0F / 128;
// Two orders of a sum of K terms in f32 differ by about sqrt(K) * 2^-24 of its terms' size; 8192 terms give
// 5e-6.
inline constexpr float kF32Rounding = 1e-5F;

// A test of one operation of each backend that is present.
class Conformance : public ::testing::TestWithParam<std::string> {
 protected:
  Side& subject() { return side(GetParam()); }
  Side& reference() { return side("reference"); }
  [[nodiscard]] ScalarType activation() const { return activation_of(GetParam()); }
  // Of one result, relative to it.
  [[nodiscard]] float rounding() const {
    return activation() == ScalarType::kBF16 ? kBf16Rounding : kF32Rounding;
  }
  void SetUp() override { Random::draws_bf16 = rounds_inputs(GetParam()); }
  void TearDown() override {
    subject().forget();
    reference().forget();
  }
};

#define INK_CONFORMANCE(suite)                                                               \
  INSTANTIATE_TEST_SUITE_P(Backends, suite,                                                  \
                           ::testing::ValuesIn(::inkstone::conformance::present_backends()), \
                           [](const auto& info) { return info.param; })

}  // namespace inkstone::conformance
