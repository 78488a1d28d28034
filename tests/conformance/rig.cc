// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/rig.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"
#include "backends/reference/reference_backend.h"
#if INKSTONE_HAS_CUDA
#include "backends/cuda/cuda_backend.h"
#endif

namespace inkstone::conformance {
namespace {

constexpr float kRepresentative = 448;  // the largest E4M3 number

// "cpu_AVX2": the CPU backend with one of its instruction sets; "cpu_bf16_AVX2": with rounded activations.
constexpr std::string_view kCpuPrefix = "cpu_";
constexpr std::string_view kRoundingPrefix = "cpu_bf16_";
bool is_cpu(const std::string& name) { return name.starts_with(kCpuPrefix); }
bool is_rounding(const std::string& name) { return name.starts_with(kRoundingPrefix); }
std::string instruction_set_of(const std::string& name) {
  return name.substr(is_rounding(name) ? kRoundingPrefix.size() : kCpuPrefix.size());
}

std::shared_ptr<ops::Backend> make([[maybe_unused]] const std::string& name) {
#if INKSTONE_HAS_CUDA
  if (name == "cuda") {
    auto made = cuda::make_backend(0);
    INK_CHECK(made.has_value(), made ? std::string() : made.error().message);
    return std::shared_ptr<ops::Backend>(std::move(*made));
  }
#endif
  if (is_cpu(name)) {
    auto made = std::make_shared<cpu::CpuBackend>(0);
    if (is_rounding(name)) made->round_activations();
    return made;
  }
  return std::make_shared<reference::ReferenceBackend>(0);
}

}  // namespace

HostTensor::HostTensor(ScalarType scalar, Shape sizes)
    : bytes(static_cast<std::size_t>(sizes.num_elements() * size_bytes(scalar)), std::byte{0xff}),
      type(scalar),
      shape(sizes) {}

TensorView HostTensor::view() { return {bytes.data(), type, shape}; }

float HostTensor::at(std::int64_t index) const {
  const std::byte* from = bytes.data() + index * size_bytes(type);
  if (type == ScalarType::kBF16) {
    BFloat16 value;
    std::memcpy(&value, from, sizeof(value));
    return to_float(value);
  }
  if (type == ScalarType::kF32) {
    float value = 0;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  INK_CHECK(type == ScalarType::kI32);
  std::int32_t value = 0;
  std::memcpy(&value, from, sizeof(value));
  return static_cast<float>(value);
}

void HostTensor::set(std::int64_t index, float value) {
  std::byte* to = bytes.data() + index * size_bytes(type);
  if (type == ScalarType::kBF16) {
    const BFloat16 narrow = to_bfloat16(value);
    std::memcpy(to, &narrow, sizeof(narrow));
  } else if (type == ScalarType::kF32) {
    std::memcpy(to, &value, sizeof(value));
  } else {
    const auto whole = static_cast<std::int32_t>(value);
    std::memcpy(to, &whole, sizeof(whole));
  }
}

HostTensor Random::tensor(ScalarType type, Shape shape, float deviation) {
  HostTensor made(type, shape);
  for (std::int64_t i = 0; i < made.size(); ++i) {
    const float value = normal(deviation);
    made.set(i, draws_bf16 ? to_float(to_bfloat16(value)) : value);
  }
  return made;
}

HostTensor Random::integers(Shape shape, std::int64_t limit) {
  HostTensor made(ScalarType::kI32, shape);
  for (std::int64_t i = 0; i < made.size(); ++i) made.set(i, static_cast<float>(below(limit)));
  return made;
}

HostBank Random::bf16_bank(std::int64_t banks, std::int64_t rows, std::int64_t columns, float deviation) {
  HostBank made;
  made.values = tensor(ScalarType::kBF16, {banks, rows, columns}, deviation);
  made.bank = MatrixBank::of(made.values.view());
  return made;
}

HostBank Random::nvfp4_bank(std::int64_t banks, std::int64_t rows, std::int64_t columns, float deviation) {
  HostBank made;
  const std::int64_t groups = columns / MatrixBank::kColumnsPerScale;
  made.values = HostTensor(ScalarType::kU8, {banks, rows, columns / 2});
  for (std::byte& pair : made.values.bytes) pair = static_cast<std::byte>(below(256));
  made.scales = HostTensor(ScalarType::kU8, {banks, rows, groups});
  // Every scale from zero and the subnormals up to the largest; no NaN, no negative.
  for (std::byte& scale : made.scales.bytes) scale = static_cast<std::byte>(below(0x7f));
  made.scale2 = HostTensor(ScalarType::kF32, {banks});
  for (std::int64_t i = 0; i < banks; ++i)
    made.scale2.set(i, deviation / kRepresentative * (1 + std::abs(normal(1))));
  made.input_amax = HostTensor(ScalarType::kBF16, {1});
  made.input_amax.set(0, 4);
  MatrixBank& bank = made.bank;
  bank.data = made.values.bytes.data();
  bank.type = ScalarType::kU8;
  bank.banks = banks, bank.rows = rows, bank.columns = columns;
  bank.row_stride_bytes = columns / 2;
  bank.bank_stride_bytes = rows * columns / 2;
  bank.scales = reinterpret_cast<const std::uint8_t*>(made.scales.bytes.data());
  bank.scale_row_stride_bytes = groups;
  bank.scale_bank_stride_bytes = rows * groups;
  bank.scale2 = reinterpret_cast<const float*>(made.scale2.bytes.data());
  bank.input_amax = reinterpret_cast<const BFloat16*>(made.input_amax.bytes.data());
  return made;
}

std::byte* Side::copy_of(const std::byte* data, std::size_t bytes) {
  auto buffer = backend_->allocate(static_cast<std::int64_t>(bytes));
  INK_CHECK(buffer.has_value(), buffer ? std::string() : buffer.error().message);
  buffers_.push_back(*buffer);
  backend_->upload(buffers_.back().get(), data, static_cast<std::int64_t>(bytes), *stream_);
  stream_->wait();
  return buffers_.back().get();
}

TensorView Side::put(HostTensor& tensor) {
  return {copy_of(tensor.bytes.data(), tensor.bytes.size()), tensor.type, tensor.shape};
}

MatrixBank Side::put(HostBank& host) {
  MatrixBank bank = host.bank;
  bank.data = copy_of(host.values.bytes.data(), host.values.bytes.size());
  if (bank.quantised()) {
    bank.scales =
        reinterpret_cast<const std::uint8_t*>(copy_of(host.scales.bytes.data(), host.scales.bytes.size()));
    bank.scale2 = reinterpret_cast<const float*>(copy_of(host.scale2.bytes.data(), host.scale2.bytes.size()));
    bank.input_amax = reinterpret_cast<const BFloat16*>(
        copy_of(host.input_amax.bytes.data(), host.input_amax.bytes.size()));
  }
  return bank;
}

HostTensor Side::get(const TensorView& view) {
  HostTensor host(view.type, view.shape);
  const std::int64_t row_bytes = view.row_elements() * size_bytes(view.type);
  for (std::int64_t i = 0; i < view.rows(); ++i) {
    backend_->download(host.bytes.data() + i * row_bytes,
                       view.data + i * view.row_stride * size_bytes(view.type), row_bytes, *stream_);
    if (view.contiguous()) {
      backend_->download(host.bytes.data(), view.data, view.bytes(), *stream_);
      break;
    }
  }
  stream_->wait();
  return host;
}

void Side::forget() {
  stream_->wait();
  buffers_.clear();
}

std::vector<std::string> present_backends() {
  std::vector<std::string> names = {"reference"};
  for (const std::string& set : cpu::instruction_sets()) {
    names.push_back(std::string(kCpuPrefix) + set);
    names.push_back(std::string(kRoundingPrefix) + set);
  }
#if INKSTONE_HAS_CUDA
  if (!cuda::list_devices().empty()) names.emplace_back("cuda");
#endif
  return names;
}

Side& side(const std::string& name) {
  if (is_cpu(name)) INK_CHECK(cpu::choose_instruction_set(instruction_set_of(name)), name);
  static auto& sides = *new std::map<std::string, Side>();  // lives until exit, as the device does
  auto found = sides.find(name);
  if (found == sides.end()) found = sides.emplace(name, Side(name, make(name))).first;
  return found->second;
}

bool forget_maximum([[maybe_unused]] Side& side, [[maybe_unused]] bool on) {
#if INKSTONE_HAS_CUDA
  if (auto* const gpu = dynamic_cast<cuda::GpuBackend*>(&side.backend())) {
    gpu->forget_maximum(on);
    return true;
  }
#endif
  return false;
}

// The reference as its own subject runs in BF16, so that the tests themselves are tested where there is no
// GPU.
ScalarType activation_of(const std::string& name) {
  return is_cpu(name) ? ScalarType::kF32 : ScalarType::kBF16;
}

bool rounds_inputs(const std::string& name) { return is_rounding(name); }

::testing::AssertionResult near(const HostTensor& a, const HostTensor& b, float relative, float absolute) {
  if (!(a.shape == b.shape)) return ::testing::AssertionFailure() << "shapes differ";
  std::int64_t wrong = 0;
  std::string first;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    if (std::abs(a.at(i) - b.at(i)) <= relative * std::abs(b.at(i)) + absolute) continue;
    if (wrong++ == 0)
      first = fmt::format("element {} of {}: {} instead of {}", i, to_string(a.shape), a.at(i), b.at(i));
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << first << ", " << wrong << " wrong of " << a.size();
}

::testing::AssertionResult same_bits(const HostTensor& a, const HostTensor& b) {
  if (!(a.shape == b.shape) || a.type != b.type)
    return ::testing::AssertionFailure() << "shapes or types differ";
  const auto width = static_cast<std::size_t>(size_bytes(a.type));
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(i) * width;
    if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, width) != 0) {
      return ::testing::AssertionFailure() << fmt::format("element {} of {} differs", i, to_string(a.shape));
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace inkstone::conformance
