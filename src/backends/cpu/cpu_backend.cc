// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/cpu_backend.h"

#include <algorithm>

#include "backends/cpu/kernels.h"
#include "backends/host/rows.h"

namespace inkstone::cpu {
namespace {

// Multiply-adds below which waking other threads costs more than they bring: about ten microseconds of one
// core.
constexpr std::int64_t kWorthSharing = 200'000;

void expect_floats(const TensorView& view) {
  INK_CHECK(view.type == ScalarType::kF32, "the CPU backend computes on f32 activations");
}

}  // namespace

CpuBackend::CpuBackend(int threads)
    : HostBackend(threads), scratch_(static_cast<std::size_t>(pool_.num_threads())) {}

float* CpuBackend::grown(std::vector<float>& memory, std::int64_t floats) {
  if (static_cast<std::int64_t>(memory.size()) < floats) memory.resize(static_cast<std::size_t>(floats));
  return memory.data();
}

void CpuBackend::run_product(const Product& product) {
  const MatrixBank& weight = *product.weight;
  const std::int64_t work = weight.rows * weight.columns * product.num_rows;
  // Shares are multiples of 32 rows, the height of a panel; eight shares a thread even out.
  const std::int64_t even = (weight.rows / (8 * pool_.num_threads()) + 31) / 32 * 32;
  const std::int64_t grain = work < kWorthSharing ? weight.rows : std::max<std::int64_t>(32, even);
  pool_.parallel_for_worker(weight.rows, grain, [&](int worker, std::int64_t begin, std::int64_t end) {
    cpu::product({.weight = WeightRows::of(weight, product.bank),
                  .begin = begin,
                  .end = end,
                  .x = product.x,
                  .x_stride = product.x_stride,
                  .num_rows = product.num_rows,
                  .out = product.out,
                  .out_stride = product.out_stride,
                  .scratch = &scratch_[static_cast<std::size_t>(worker)].product});
  });
}

void CpuBackend::rms_norm(const ops::RmsNormArgs& args, ops::Stream&) {
  check(args);
  expect_floats(args.x);
  const std::int64_t size = args.weight.rows();
  const std::int64_t heads = args.x.row_elements() / size;
  const std::int64_t grain = std::max<std::int64_t>(1, kWorthSharing / (4 * args.x.row_elements()));
  pool_.parallel_for(args.x.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t head = 0; head < heads; ++head) {
        cpu::rms_norm(args.x.row<float>(t) + head * size, args.weight.as<BFloat16>(), args.eps, size,
                      args.out.row<float>(t) + head * size);
      }
    }
  });
}

void CpuBackend::linear(const ops::LinearArgs& args, ops::Stream&) {
  check(args);
  expect_floats(args.x);
  expect_floats(args.out);
  float* out = args.out.as<float>();
  for (const MatrixBank& weight : args.weights) {
    run_product({&weight, 0, args.x.as<float>(), args.x.row_stride, args.x.rows(), out, args.out.row_stride});
    out += weight.rows;
  }
  const float scale = args.out_scale.empty() ? 1.0F : host::scalar(args.out_scale);
  if (args.alpha == 1.0F && scale == 1.0F) return;
  for (std::int64_t t = 0; t < args.out.rows(); ++t) {
    float* row = args.out.row<float>(t);
    for (std::int64_t n = 0; n < args.out.shape[1]; ++n) row[n] = row[n] * args.alpha * scale;
  }
}

void CpuBackend::gated_linear(const ops::GatedLinearArgs& args, ops::Stream&) {
  check(args);
  expect_floats(args.x);
  const std::int64_t width = args.weight.gate.rows;
  const std::int64_t num_rows = args.x.rows();
  float* gate = grown(gate_, num_rows * width);
  float* up = grown(up_, num_rows * width);
  run_product({&args.weight.gate, 0, args.x.as<float>(), args.x.row_stride, num_rows, gate, width});
  run_product({&args.weight.up, 0, args.x.as<float>(), args.x.row_stride, num_rows, up, width});
  pool_.parallel_for(num_rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      swiglu(gate + t * width, up + t * width, 1.0F, width, args.out.row<float>(t));
    }
  });
}

}  // namespace inkstone::cpu
