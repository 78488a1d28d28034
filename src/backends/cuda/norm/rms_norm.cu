// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/kernels.h"
#include "backends/cuda/norm/row.cuh"

namespace inkstone::cuda {
namespace {

template <class T,
          class Out>  // bf16, or float: the residual stream, sums that the towers have not rounded yet
struct NormProblem {
  const T* x;
  const bf16* weight;
  Out* out;
  bf16* rest;                                      // null where nobody wants it
  std::int64_t x_stride, out_stride, rest_stride;  // of the outermost axis, elements
  std::int64_t inner;                              // normed rows per entry of the outermost axis
  std::int64_t num_rows;
  int width;
  float eps;
};

// A row's share of one thread as it lies in memory: held in registers between the two passes, weights with
// it, so that a row costs one way to memory.
template <int kThreadsPerRow, class T>
struct HeldShare {
  Float8 x[kHeldVectors];
  uint4 weight[kHeldVectors];

  __device__ __forceinline__ HeldShare(const T* from, const bf16* weights, int first, int width) {
#pragma unroll
    for (int n = 0; n < kHeldVectors; ++n) {
      const int i = first + n * kThreadsPerRow * 8;
      x[n] = i < width ? load8(from + i) : Float8{};
      weight[n] = i < width ? *reinterpret_cast<const uint4*>(weights + i) : make_uint4(0, 0, 0, 0);
    }
  }
};

// Computes: out = x / sqrt(mean(x^2) + eps) * weight in f32, rounded once.
// Layout: kThreadsPerRow threads a row, vectors of eight dealt round; the order of the sum follows from the
// width. Roles: all alike. Synchronisation: one barrier for rows wider than a warp takes; out may be x, since
// each thread reads its own vectors before it writes them. Budget: memory bound, x read once.
template <int kThreadsPerRow, class T, class Out>
__global__ void __launch_bounds__(kNormThreads) rms_norm_kernel(NormProblem<T, Out> p) {
  constexpr int kRowsPerBlock = kNormThreads / kThreadsPerRow;
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kThreadsPerRow;
  if (row >= p.num_rows) return;  // whole warps; a block of one row never gets here
  const int first = static_cast<int>(threadIdx.x % kThreadsPerRow) * 8;
  const T* const x = p.x + (row / p.inner) * p.x_stride + (row % p.inner) * p.width;
  Out* const out = p.out + (row / p.inner) * p.out_stride + (row % p.inner) * p.width;
  const HeldShare<kThreadsPerRow, T> held(x, p.weight, first, p.width);
  float squares = 0;
#pragma unroll
  for (int n = 0; n < kHeldVectors; ++n) squares = add_squares(squares, held.x[n]);
  const float factor = norm_factor(row_sum<kThreadsPerRow>(squares), p.width, p.eps);
#pragma unroll
  for (int n = 0; n < kHeldVectors; ++n) {
    const int i = first + n * kThreadsPerRow * 8;
    if (i >= p.width) break;
    const Float8 weight = widen(held.weight[n]);
    Float8 value = held.x[n];
#pragma unroll
    for (int j = 0; j < 8; ++j) value.v[j] = value.v[j] * factor * weight.v[j];
    store8(out + i, value);
    if (p.rest != nullptr) store8(p.rest + row * p.rest_stride + i, rest_of(value));
  }
}

template <class T, class Out>
void launch_norm(const ops::RmsNormArgs& args, const Launch& launch) {
  const int rank = args.x.shape.rank();
  const std::int64_t width = args.x.shape[rank - 1];
  const std::int64_t inner = rank == 3 ? args.x.shape[1] : 1;
  const std::int64_t num_rows = args.x.rows() * inner;
  INK_CHECK(width % 8 == 0 && width <= kWidest, "normed widths are multiples of 8, at most 8192");
  if (num_rows == 0) return;
  INK_CHECK(args.rest.empty() || inner == 1, "rests are of whole rows");
  const NormProblem<T, Out> problem{args.x.as<T>(),
                                    args.weight.as<bf16>(),
                                    args.out.as<Out>(),
                                    args.rest.empty() ? nullptr : args.rest.as<bf16>(),
                                    args.x.row_stride,
                                    args.out.row_stride,
                                    args.rest.empty() ? 0 : args.rest.row_stride,
                                    inner,
                                    num_rows,
                                    static_cast<int>(width),
                                    args.eps};
  if (width <= kWarpWidth) {
    const auto blocks = static_cast<unsigned>(ceil_div(num_rows, kNormThreads / kWarpThreads));
    rms_norm_kernel<kWarpThreads, T, Out><<<blocks, kNormThreads, 0, launch.stream>>>(problem);
  } else {
    rms_norm_kernel<kNormThreads, T, Out>
        <<<static_cast<unsigned>(num_rows), kNormThreads, 0, launch.stream>>>(problem);
  }
  check_launch();
}

}  // namespace

void rms_norm(const ops::RmsNormArgs& args, const Launch& launch) {
  expect_vectorised(args.x);
  expect_vectorised(args.out);
  if (!args.rest.empty()) expect_bf16(args.rest);
  if (args.x.type == ScalarType::kBF16) return launch_norm<bf16, bf16>(args, launch);
  if (args.out.type == ScalarType::kF32) return launch_norm<float, float>(args, launch);
  launch_norm<float, bf16>(args, launch);
}

}  // namespace inkstone::cuda
