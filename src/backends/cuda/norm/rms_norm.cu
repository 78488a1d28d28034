// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/primitives/simt.cuh"

namespace inkstone::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kWarpWidth = 1024;  // widths up to this are normed by one warp a row

template <class T>  // bf16, or float: sums that the towers have not rounded yet
struct NormProblem {
  const T* x;
  const bf16* weight;
  T* out;
  std::int64_t x_stride, out_stride;  // of the outermost axis, elements
  std::int64_t inner;                 // normed rows per entry of the outermost axis
  std::int64_t num_rows;
  int width;
  float eps;
};

// Sum over the threads of one row, the same in all of them.
template <int kThreadsPerRow>
__device__ float row_sum(float value) {
  value = warp_sum(value);
  if constexpr (kThreadsPerRow == kWarpThreads) {
    return value;
  } else {
    constexpr int kWarps = kThreadsPerRow / kWarpThreads;
    __shared__ float partial[kWarps];
    if (threadIdx.x % kWarpThreads == 0) partial[threadIdx.x / kWarpThreads] = value;
    __syncthreads();  // every warp's share is there
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += partial[warp];
    return sum;
  }
}

// Computes: out = x / sqrt(mean(x^2) + eps) * weight in f32, rounded once.
// Layout: kThreadsPerRow threads a row, vectors of eight dealt round; the order of the sum follows from the
// width. Roles: all alike. Synchronisation: one barrier for rows wider than a warp takes; out may be x, since
// each thread reads its own vectors before it writes them. Budget: memory bound; the second read of x comes
// from L1.
template <int kThreadsPerRow, class T>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(NormProblem<T> p) {
  constexpr int kRowsPerBlock = kThreads / kThreadsPerRow;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kThreadsPerRow;
  if (row >= p.num_rows) return;  // whole warps; a block of one row never gets here
  const int first = static_cast<int>(threadIdx.x % kThreadsPerRow) * 8;
  const T* const x = p.x + (row / p.inner) * p.x_stride + (row % p.inner) * p.width;
  T* const out = p.out + (row / p.inner) * p.out_stride + (row % p.inner) * p.width;
  float squares = 0;
  for (int i = first; i < p.width; i += kThreadsPerRow * 8) {
    const Float8 value = load8(x + i);
#pragma unroll
    for (int j = 0; j < 8; ++j) squares += value.v[j] * value.v[j];
  }
  const float factor = 1.0F / sqrtf(row_sum<kThreadsPerRow>(squares) / static_cast<float>(p.width) + p.eps);
  for (int i = first; i < p.width; i += kThreadsPerRow * 8) {
    Float8 value = load8(x + i);
    const Float8 weight = load8(p.weight + i);
#pragma unroll
    for (int j = 0; j < 8; ++j) value.v[j] = value.v[j] * factor * weight.v[j];
    store8(out + i, value);
  }
}

template <class T>
void launch_norm(const ops::RmsNormArgs& args, const Launch& launch) {
  const int rank = args.x.shape.rank();
  const std::int64_t width = args.x.shape[rank - 1];
  const std::int64_t inner = rank == 3 ? args.x.shape[1] : 1;
  const std::int64_t num_rows = args.x.rows() * inner;
  INK_CHECK(width % 8 == 0, "normed widths are multiples of 8");
  if (num_rows == 0) return;
  const NormProblem<T> problem{args.x.as<T>(),    args.weight.as<bf16>(),  args.out.as<T>(),
                               args.x.row_stride, args.out.row_stride,     inner,
                               num_rows,          static_cast<int>(width), args.eps};
  if (width <= kWarpWidth) {
    const auto blocks = static_cast<unsigned>(ceil_div(num_rows, kThreads / kWarpThreads));
    rms_norm_kernel<kWarpThreads, T><<<blocks, kThreads, 0, launch.stream>>>(problem);
  } else {
    rms_norm_kernel<kThreads, T><<<static_cast<unsigned>(num_rows), kThreads, 0, launch.stream>>>(problem);
  }
  check_launch();
}

}  // namespace

void rms_norm(const ops::RmsNormArgs& args, const Launch& launch) {
  expect_vectorised(args.x);
  expect_vectorised(args.out);
  if (args.x.type == ScalarType::kF32) return launch_norm<float>(args, launch);
  launch_norm<bf16>(args, launch);
}

}  // namespace inkstone::cuda
