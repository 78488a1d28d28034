// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/simt.cuh"

#include <cuda_fp8.h>

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup = 16;  // columns that share a scale

// Nearest E2M1 magnitude, ties to the even code: the midpoints 0.25, 1.25, 2.5 and 5 fall, 0.75, 1.75 and 3.5
// rise.
__device__ float round_e2m1(float magnitude) {
  if (magnitude <= 0.25F) return 0.0F;
  if (magnitude < 0.75F) return 0.5F;
  if (magnitude <= 1.25F) return 1.0F;
  if (magnitude < 1.75F) return 1.5F;
  if (magnitude <= 2.5F) return 2.0F;
  if (magnitude < 3.5F) return 3.0F;
  return magnitude <= 5.0F ? 4.0F : 6.0F;
}

__device__ float round_e4m3(float value) {
  const __nv_fp8_storage_t code = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

struct RoundProblem {
  const bf16* x;
  std::int64_t x_stride;
  bf16* out;
  std::int64_t out_stride;
  const bf16* amax;
  std::int64_t per_row, total;  // groups
};

// Computes: out = x rounded to what NVFP4 with the calibrated scale can hold (`checkpoint.md` 5.4).
// Layout: one group of 16 columns a thread. Roles: all alike. Synchronisation: none; out may be x.
// Budget: 64 bytes a group, memory bound.
__global__ void __launch_bounds__(kThreads) round_nvfp4_kernel(RoundProblem p) {
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (group >= p.total) return;
  const bf16* const from = p.x + (group / p.per_row) * p.x_stride + (group % p.per_row) * kGroup;
  bf16* const to = p.out + (group / p.per_row) * p.out_stride + (group % p.per_row) * kGroup;
  Float8 half[2] = {load8(from), load8(from + 8)};
  float largest = 0;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) largest = fmaxf(largest, fabsf(half[i / 8].v[i % 8]));
  const float step = __bfloat162float(*p.amax) / 2688.0F;
  const float scale = round_e4m3(largest / 6.0F / step) * step;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) {
    float& value = half[i / 8].v[i % 8];
    value = scale > 0.0F ? copysignf(round_e2m1(fabsf(value) / scale) * scale, value) : 0.0F;
  }
  store8(to, half[0]);
  store8(to + 8, half[1]);
}

}  // namespace

void round_nvfp4(const ops::RoundNvfp4Args& args, const Launch& launch) {
  expect_bf16(args.x);
  expect_bf16(args.out);
  const std::int64_t per_row = args.x.shape[1] / kGroup;
  const std::int64_t total = args.x.rows() * per_row;
  if (total == 0) return;
  const RoundProblem problem{args.x.as<bf16>(),
                             args.x.row_stride,
                             args.out.as<bf16>(),
                             args.out.row_stride,
                             args.input_amax.as<bf16>(),
                             per_row,
                             total};
  round_nvfp4_kernel<<<static_cast<unsigned>(ceil_div(total, kThreads)), kThreads, 0, launch.stream>>>(
      problem);
  check_launch();
}

}  // namespace inkstone::cuda
