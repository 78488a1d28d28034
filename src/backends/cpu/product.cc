// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set: see kernels.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

// Weight rows by x rows of one register tile: accumulators, one row of weights and of x each must fit the
// registers.
constexpr std::int64_t kTileN = 4;
constexpr std::int64_t kTileM = HWY_TARGET <= HWY_AVX3 ? 6 : 3;
// Up to this many rows of x weights are widened in registers, beyond it once per panel into memory.
constexpr std::int64_t kDirectRows = 16;
// Panel: rows of weights by columns, 128 KB of floats: half of a small second-level cache.
constexpr std::int64_t kPanelRows = 32;
constexpr std::int64_t kPanelColumns = 1024;

// acc[n][m] += w_n . x_m over columns [0, columns) of the given rows.
template <std::int64_t N, std::int64_t M, class Loader>
HWY_INLINE void accumulate(const Loader& weights, std::int64_t first, const float* x, std::int64_t x_stride,
                           std::int64_t columns, hn::Vec<D> (&acc)[N][M]) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  typename Loader::Row rows[N];
  for (std::int64_t n = 0; n < N; ++n) rows[n] = weights.row(first + n);
  std::int64_t k = 0;
  for (; k + lanes <= columns; k += lanes) {
    hn::Vec<D> w[N];
    for (std::int64_t n = 0; n < N; ++n) w[n] = rows[n].load(d, k);
    for (std::int64_t m = 0; m < M; ++m) {
      const auto value = hn::LoadU(d, x + m * x_stride + k);
      for (std::int64_t n = 0; n < N; ++n) acc[n][m] = hn::MulAdd(w[n], value, acc[n][m]);
    }
  }
  if (k == columns) return;
  const std::int64_t rest = columns - k;
  for (std::int64_t n = 0; n < N; ++n) {
    const auto w = rows[n].load_partial(d, k, rest);
    for (std::int64_t m = 0; m < M; ++m) {
      const auto value = load_first(d, x + m * x_stride + k, rest);
      acc[n][m] = hn::MulAdd(w, value, acc[n][m]);
    }
  }
}

template <std::int64_t N, std::int64_t M>
HWY_INLINE void fold(const hn::Vec<D> (&acc)[N][M], float* out, std::int64_t out_stride) {
  const D d;
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t m = 0; m < M; ++m) out[m * out_stride + n] = hn::GetLane(hn::SumOfLanes(d, acc[n][m]));
  }
}

template <std::int64_t N, std::int64_t M, class Loader>
HWY_INLINE void tile(const ProductArgs& args, const Loader& weights, std::int64_t n, std::int64_t m) {
  const D d;
  hn::Vec<D> acc[N][M];
  for (auto& row : acc) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  accumulate<N, M>(weights, n, args.x + m * args.x_stride, args.x_stride, args.weight.columns, acc);
  fold<N, M>(acc, args.out + m * args.out_stride + n, args.out_stride);
}

// All rows of x for N rows of weights, so that weights come from memory once.
template <std::int64_t N, class Loader>
HWY_INLINE void tiles_of_rows(const ProductArgs& args, const Loader& weights, std::int64_t n) {
  std::int64_t m = 0;
  for (; m + kTileM <= args.num_rows; m += kTileM) tile<N, kTileM>(args, weights, n, m);
  for (; m < args.num_rows; ++m) tile<N, 1>(args, weights, n, m);
}

template <class Loader>
void direct(const ProductArgs& args, const Loader& weights) {
  std::int64_t n = args.begin;
  // One row of x: eight rows of weights keep enough loads in flight.
  if (args.num_rows == 1) {
    for (; n + 8 <= args.end; n += 8) tile<8, 1>(args, weights, n, 0);
  }
  for (; n + kTileN <= args.end; n += kTileN) tiles_of_rows<kTileN>(args, weights, n);
  for (; n < args.end; ++n) tiles_of_rows<1>(args, weights, n);
}

// Widened rows [first, first + count) of columns [column, column + width) into a panel.
template <class Loader>
void fill_panel(const Loader& weights, std::int64_t first, std::int64_t count, std::int64_t column,
                std::int64_t width, float* panel) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t n = 0; n < count; ++n) {
    const auto row = weights.row(first + n);
    float* out = panel + n * kPanelColumns;
    std::int64_t k = 0;
    for (; k + lanes <= width; k += lanes) hn::StoreU(row.load(d, column + k), d, out + k);
    if (k < width) store_first(d, row.load_partial(d, column + k, width - k), out + k, width - k);
  }
}

// One tile over the columns of a panel; sums of earlier panels come from `carried` and go back, the last ones
// are folded.
template <std::int64_t N, std::int64_t M>
HWY_INLINE void panel_tile(const F32Loader& panel, std::int64_t n, const float* x, std::int64_t x_stride,
                           std::int64_t width, float* carried, bool first, float* folded,
                           std::int64_t out_stride) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[N][M];
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < M; ++j)
      acc[i][j] = first ? hn::Zero(d) : hn::LoadU(d, carried + (i * M + j) * lanes);
  }
  accumulate<N, M>(panel, n, x, x_stride, width, acc);
  if (folded != nullptr) return fold<N, M>(acc, folded, out_stride);
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < M; ++j) hn::StoreU(acc[i][j], d, carried + (i * M + j) * lanes);
  }
}

struct PanelStep {
  std::int64_t row = 0;     // first row of weights
  std::int64_t count = 0;   // rows of weights
  std::int64_t column = 0;  // first column
  std::int64_t width = 0;
  bool first = false;
  bool last = false;
};

// Every tile of a panel. `carried` holds one vector per output.
template <std::int64_t M>
void panel_rows(const ProductArgs& args, const F32Loader& panel, const PanelStep& step, std::int64_t m,
                float* carried) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const float* x = args.x + m * args.x_stride + step.column;
  float* const rows = carried + m * kPanelRows * lanes;
  const auto out = [&](std::int64_t n) {
    return step.last ? args.out + m * args.out_stride + step.row + n : nullptr;
  };
  std::int64_t n = 0;
  for (; n + kTileN <= step.count; n += kTileN) {
    panel_tile<kTileN, M>(panel, n, x, args.x_stride, step.width, rows + n * M * lanes, step.first, out(n),
                          args.out_stride);
  }
  for (; n < step.count; ++n) {
    panel_tile<1, M>(panel, n, x, args.x_stride, step.width, rows + n * M * lanes, step.first, out(n),
                     args.out_stride);
  }
}

template <class Loader>
void panels(const ProductArgs& args, const Loader& weights) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t panel_floats = kPanelRows * kPanelColumns;
  args.scratch->resize(static_cast<std::size_t>(panel_floats + args.num_rows * kPanelRows * lanes));
  float* const panel = args.scratch->data();
  float* const carried = panel + panel_floats;
  const F32Loader loader{panel, kPanelColumns};
  for (std::int64_t row = args.begin; row < args.end; row += kPanelRows) {
    const std::int64_t count = HWY_MIN(kPanelRows, args.end - row);
    for (std::int64_t column = 0; column < args.weight.columns; column += kPanelColumns) {
      const std::int64_t width = HWY_MIN(kPanelColumns, args.weight.columns - column);
      fill_panel(weights, row, count, column, width, panel);
      const PanelStep step{row, count, column, width, column == 0, column + width == args.weight.columns};
      std::int64_t m = 0;
      for (; m + kTileM <= args.num_rows; m += kTileM) panel_rows<kTileM>(args, loader, step, m, carried);
      for (; m < args.num_rows; ++m) panel_rows<1>(args, loader, step, m, carried);
    }
  }
}

template <class Loader>
void run(const ProductArgs& args, const Loader& weights) {
  return args.num_rows <= kDirectRows ? direct(args, weights) : panels(args, weights);
}

void Product(const ProductArgs& args) {
  const WeightRows& weight = args.weight;
  switch (weight.type) {
    case ScalarType::kBF16:
      return run(args, Bf16Loader{weight.data, weight.stride_bytes});
    case ScalarType::kU8:
      return run(args, Nvfp4Loader{weight.data, weight.stride_bytes, weight.scales, weight.scale_stride_bytes,
                                   weight.scale2});
    default:
      return run(args, F32Loader{reinterpret_cast<const float*>(weight.data), weight.stride_bytes / 4});
  }
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inkstone::cpu {

HWY_EXPORT(Product);
void product(const ProductArgs& args) { HWY_DYNAMIC_DISPATCH(Product)(args); }

}  // namespace inkstone::cpu
#endif
