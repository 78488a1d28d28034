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

// Threads that read experts: so many pieces are asked of the disk at a time.
constexpr int kReaders = 4;

// Rows of weights that one thread takes at a time, at least: one panel or two.
constexpr std::int64_t kUnitRows = 64;

void expect_floats(const TensorView& view) {
  INK_CHECK(view.type == ScalarType::kF32, "the CPU backend computes on f32 activations");
}

}  // namespace

CpuBackend::CpuBackend(const ThreadPoolOptions& threads, std::int64_t expert_cache_bytes)
    : HostBackend(threads), scratch_(static_cast<std::size_t>(pool_.num_threads())) {
  keep_experts_within(expert_cache_bytes);
}

void CpuBackend::keep_experts_within(std::int64_t bytes, const std::vector<SourceFile>& files) {
  experts_ = bytes > 0 ? std::make_unique<ExpertCache>(bytes, kReaders, files) : nullptr;
}

float* CpuBackend::grown(AlignedFloats& memory, std::int64_t floats) {
  if (static_cast<std::int64_t>(memory.size()) < floats) memory.resize(static_cast<std::size_t>(floats));
  return memory.data();
}

// Inputs of NVFP4 weights in the order of their kernels, and rounded ones in pairs; neighbours with the same
// input and kind of weight share it.
void CpuBackend::arrange_inputs() {
  std::int64_t floats = 0;
  for (const Product& product : products_)
    floats += product.num_rows * arranged_columns(product.weight.columns);
  float* to = grown(arranged_, floats);
  const float* source = nullptr;
  const float* arranged = nullptr;
  bool source_rounded = false;
  for (Product& product : products_) {
    if (!product.weight.quantised() && !product.rounded_x) continue;
    const std::int64_t columns = product.weight.columns;
    const std::int64_t stride = product.rounded_x ? pair_floats(columns) : arranged_columns(columns);
    if (product.x != source || product.rounded_x != source_rounded) {
      source = product.x;
      source_rounded = product.rounded_x;
      arranged = to;
      pool_.parallel_for(product.num_rows, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t)
          (product.rounded_x ? round_to_pairs : arrange)(product.x + t * product.x_stride, columns,
                                                         to + t * stride);
      });
      to += product.num_rows * stride;
    }
    product.x = arranged;
    product.x_stride = stride;
  }
}

CpuBackend::Product CpuBackend::Product::gated(const GatedMatrix& both, std::int64_t bank) {
  const MatrixBank& gate = both.gate;
  const MatrixBank& up = both.up;
  Product product{.weight = gate, .bank = bank, .partner = up};
  const bool alternate =
      up.data == gate.data + gate.row_stride_bytes / 2 && up.row_stride_bytes == gate.row_stride_bytes &&
      up.scale2 == gate.scale2 &&
      (gate.scales == nullptr || up.scales == gate.scales + gate.scale_row_stride_bytes / 2);
  if (!alternate) return product;
  product.weight.rows *= 2;
  product.weight.row_stride_bytes /= 2;
  product.weight.scale_row_stride_bytes /= 2;
  product.partner = {};
  return product;
}

// Rows [begin, end) of the weight and of its partner.
void CpuBackend::run_part(const Product& product, std::int64_t begin, std::int64_t end,
                          Scratch& scratch) const {
  ProductArgs args = {.weight = WeightRows::of(product.weight, product.bank),
                      .begin = begin,
                      .end = end,
                      .x = product.x,
                      .rounded_x = product.rounded_x,
                      .x_stride = product.x_stride,
                      .num_rows = product.num_rows,
                      .out = product.out,
                      .out_stride = product.out_stride,
                      .odd_out = product.partner.empty() ? product.partner_out : nullptr,
                      .scratch = &scratch.product};
  cpu::product(args);
  if (product.partner.empty()) return;
  args.weight = WeightRows::of(product.partner, product.bank);
  args.out = product.partner_out;
  cpu::product(args);
}

void CpuBackend::run_products() {
  arrange_inputs();
  first_unit_.clear();
  std::int64_t units = 0;
  std::int64_t work = 0;
  for (const Product& product : products_) {
    first_unit_.push_back(units);
    units += (product.weight.rows + kUnitRows - 1) / kUnitRows;
    work += product.weight.rows * product.weight.columns * product.num_rows;
  }
  // Eight shares a thread even out.
  const std::int64_t grain =
      work < kWorthSharing ? units : std::max<std::int64_t>(1, units / (8 * pool_.num_threads()));
  pool_.parallel_for_worker(units, grain, [&](int worker, std::int64_t begin, std::int64_t end) {
    auto index = static_cast<std::size_t>(std::upper_bound(first_unit_.begin(), first_unit_.end(), begin) -
                                          first_unit_.begin() - 1);
    for (std::int64_t unit = begin; unit < end; ++index) {
      const Product& product = products_[index];
      const std::int64_t from = (unit - first_unit_[index]) * kUnitRows;
      const std::int64_t to = std::min(product.weight.rows, (end - first_unit_[index]) * kUnitRows);
      run_part(product, from, to, scratch_[static_cast<std::size_t>(worker)]);
      unit = first_unit_[index] + (to + kUnitRows - 1) / kUnitRows;
    }
  });
}

void CpuBackend::rms_norm(const ops::RmsNormArgs& args, ops::Stream&) {
  check(args);
  expect_floats(args.x);
  expect_floats(args.out);
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
  INK_CHECK(args.x_rest.empty(), "f32 activations leave no rest");
  expect_floats(args.x);
  expect_floats(args.out);
  float* out = args.out.as<float>();
  products_.clear();
  for (const MatrixBank& weight : args.weights) {
    products_.push_back({weight,
                         0,
                         args.x.as<float>(),
                         args.x.row_stride,
                         args.x.rows(),
                         out,
                         args.out.row_stride,
                         {},
                         nullptr,
                         !args.keep_input && rounds_inputs_of(weight)});
    out += weight.rows;
  }
  run_products();
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
  products_.clear();
  Product both = Product::gated(args.weight, 0);
  both.x = args.x.as<float>();
  both.x_stride = args.x.row_stride;
  both.num_rows = num_rows;
  both.out = gate;
  both.out_stride = width;
  both.partner_out = up;
  both.rounded_x = rounds_inputs_of(args.weight.gate);
  products_.push_back(both);
  run_products();
  pool_.parallel_for(num_rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      swiglu(gate + t * width, up + t * width, 1.0F, width, args.out.row<float>(t));
    }
  });
}

}  // namespace inkstone::cpu
