// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 256;

// Rows of vectors of eight; strides in elements.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;

  __device__ T* at(std::int64_t vector, std::int64_t per_row) const {
    return data + (vector / per_row) * stride + (vector % per_row) * 8;
  }
};

template <class T = bf16>
Rows<T> rows_of(const TensorView& view) {
  return {view.as<T>(), view.row_stride};
}
std::int64_t vectors_per_row(const TensorView& view) { return view.row_elements() / 8; }

// Computes: out = x + y in f32, rounded once where T is BF16.
// Layout: one vector of eight per thread. Roles: all alike. Synchronisation: none; a thread reads what it
// overwrites. Budget: 48 bytes per vector of BF16, memory bound.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_kernel(Rows<T> x, Rows<T> y, Rows<T> out, std::int64_t per_row, std::int64_t total) {
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (vector >= total) return;
  Float8 sum = load8(x.at(vector, per_row));
  const Float8 other = load8(y.at(vector, per_row));
#pragma unroll
  for (int i = 0; i < 8; ++i) sum.v[i] += other.v[i];
  store8(out.at(vector, per_row), sum);
}

// Computes: x *= 1 + alpha * ln(max((position + 1) / floor, 1)).
// Layout, roles, synchronisation: as add_kernel. Budget: 32 bytes per vector.
__global__ void __launch_bounds__(kThreads)
    log_scale_kernel(Rows<bf16> x, const std::int32_t* position, float floor, float alpha,
                     std::int64_t per_row, std::int64_t total) {
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (vector >= total) return;
  const float tau = length_factor(position[vector / per_row], floor, alpha);
  bf16* const at = x.at(vector, per_row);
  Float8 value = load8(at);
#pragma unroll
  for (int i = 0; i < 8; ++i) value.v[i] *= tau;
  store8(at, value);
}

// Computes: x = x (1 + erf(x / sqrt 2)) / 2. Layout, roles, synchronisation, budget: as log_scale_kernel.
__global__ void __launch_bounds__(kThreads)
    gelu_kernel(Rows<bf16> x, std::int64_t per_row, std::int64_t total) {
  const std::int64_t vector = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (vector >= total) return;
  bf16* const at = x.at(vector, per_row);
  Float8 value = load8(at);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    value.v[i] = 0.5F * value.v[i] * (1.0F + erff(value.v[i] * 0.70710678118654752F));
  store8(at, value);
}

unsigned blocks_for(std::int64_t total) { return static_cast<unsigned>(ceil_div(total, kThreads)); }

}  // namespace

namespace {

template <class T>
void launch_add(const ops::AddArgs& args, const Launch& launch) {
  const std::int64_t per_row = vectors_per_row(args.x);
  const std::int64_t total = args.x.rows() * per_row;
  if (total == 0) return;
  add_kernel<<<blocks_for(total), kThreads, 0, launch.stream>>>(rows_of<T>(args.x), rows_of<T>(args.y),
                                                                rows_of<T>(args.out), per_row, total);
  check_launch();
}

}  // namespace

void add(const ops::AddArgs& args, const Launch& launch) {
  for (const TensorView* view : {&args.x, &args.y, &args.out}) expect_vectorised(*view);
  if (args.x.type == ScalarType::kF32) return launch_add<float>(args, launch);
  launch_add<bf16>(args, launch);
}

void log_scale(const ops::LogScaleArgs& args, const Launch& launch) {
  expect_bf16(args.x);
  const std::int64_t per_row = vectors_per_row(args.x);
  const std::int64_t total = args.x.rows() * per_row;
  if (total == 0) return;
  log_scale_kernel<<<blocks_for(total), kThreads, 0, launch.stream>>>(
      rows_of(args.x), args.row_position.as<std::int32_t>(), args.floor, args.alpha, per_row, total);
  check_launch();
}

void gelu(const ops::GeluArgs& args, const Launch& launch) {
  expect_bf16(args.x);
  const std::int64_t per_row = vectors_per_row(args.x);
  const std::int64_t total = args.x.rows() * per_row;
  if (total == 0) return;
  gelu_kernel<<<blocks_for(total), kThreads, 0, launch.stream>>>(rows_of(args.x), per_row, total);
  check_launch();
}

}  // namespace inkstone::cuda
