// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set: see kernels.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product.cc"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>
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

// Codes of a block, eight vectors of weights one after the other.
template <std::int64_t N, std::int64_t M>
HWY_INLINE void add_block(Nvfp4Loader::Block (&blocks)[N], const float* x, std::int64_t x_stride,
                          hn::Vec<D> (&acc)[N][M]) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < Nvfp4Loader::kCodesPerWord; ++j) {
    hn::Vec<D> w[N];
    for (std::int64_t n = 0; n < N; ++n) w[n] = blocks[n].next();
    for (std::int64_t m = 0; m < M; ++m) {
      const auto value = hn::LoadU(d, x + m * x_stride + j * lanes);
      for (std::int64_t n = 0; n < N; ++n) acc[n][m] = hn::MulAdd(w[n], value, acc[n][m]);
    }
  }
}

template <std::int64_t N, std::int64_t M>
HWY_INLINE void accumulate(const Nvfp4Loader& weights, std::int64_t first, const float* x,
                           std::int64_t x_stride, std::int64_t columns, hn::Vec<D> (&acc)[N][M]) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t block_columns = Nvfp4Loader::kCodesPerWord * lanes;
  const std::int64_t words = columns / Nvfp4Loader::kCodesPerWord;
  Nvfp4Loader::Row rows[N];
  for (std::int64_t n = 0; n < N; ++n) rows[n] = weights.row(first + n);
  Nvfp4Loader::Block blocks[N];
  std::int64_t word = 0;
  for (; word + lanes <= words; word += lanes, x += block_columns) {
    for (std::int64_t n = 0; n < N; ++n) {
      blocks[n] = Nvfp4Loader::load(rows[n].codes + 4 * word, rows[n].scales + word / 2);
      // The next tile's rows: short rows give the processor no time to find their beginnings by itself.
      hwy::Prefetch(rows[n].codes + 4 * word + N * weights.stride_bytes);
    }
    add_block(blocks, x, x_stride, acc);
  }
  if (word == words) return;
  for (std::int64_t n = 0; n < N; ++n)
    blocks[n] = Nvfp4Loader::load_partial(rows[n].codes + 4 * word, rows[n].scales + word / 2, words - word);
  add_block(blocks, x, x_stride, acc);
}

#if HWY_TARGET != HWY_SCALAR
// Halves onto each other until four lanes are left.
template <class Wide>
HWY_INLINE auto halved(Wide d, hn::Vec<Wide> sum) {
  if constexpr (hn::MaxLanes(Wide()) <= 4) {
    return sum;
  } else {
    const hn::Half<Wide> half;
    return halved(half, hn::Add(hn::LowerHalf(half, sum), hn::UpperHalf(half, sum)));
  }
}
#endif

// The sums of the lanes of four vectors, times the factor. Lane by lane in one order, whatever the other
// vectors are.
HWY_INLINE void fold_four(hn::Vec<D> a, hn::Vec<D> b, hn::Vec<D> c, hn::Vec<D> e, float factor, float* four) {
  const D d;
#if HWY_TARGET == HWY_SCALAR
  for (const auto sum : {a, b, c, e}) *four++ = hn::GetLane(sum) * factor;
  static_cast<void>(d);
#else
  const hn::Repartition<double, D> pairs;
  const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  const auto ce = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e)));
  const auto all = hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                           hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
  const hn::FixedTag<float, 4> out;
  hn::StoreU(hn::Mul(halved(d, all), hn::Set(out, factor)), out, four);
#endif
}

template <std::int64_t N, std::int64_t M>
HWY_INLINE void fold(const ProductArgs& args, const hn::Vec<D> (&acc)[N][M], float* out) {
  const float factor = args.weight.scale2;
  for (std::int64_t m = 0; m < M; ++m, out += args.out_stride) {
    if constexpr (N % 4 == 0) {
      for (std::int64_t n = 0; n < N; n += 4)
        fold_four(acc[n][m], acc[n + 1][m], acc[n + 2][m], acc[n + 3][m], factor, out + n);
    } else {
      static_assert(N == 1);
      float four[4];
      fold_four(acc[0][m], acc[0][m], acc[0][m], acc[0][m], factor, four);
      *out = four[0];
    }
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
  fold<N, M>(args, acc, args.out + m * args.out_stride + n);
}

// Rows [m, m + count) of x, fewer than a full tile.
template <std::int64_t N, class Loader>
HWY_INLINE void tile_of(const ProductArgs& args, const Loader& weights, std::int64_t n, std::int64_t m,
                        std::int64_t count) {
  switch (count) {
    case 1:
      return tile<N, 1>(args, weights, n, m);
    case 2:
      return tile<N, 2>(args, weights, n, m);
    case 3:
      return tile<N, 3>(args, weights, n, m);
    case 4:
      return tile<N, HWY_MIN(4, kTileM)>(args, weights, n, m);
    default:
      return tile<N, HWY_MIN(5, kTileM)>(args, weights, n, m);
  }
}

// All rows of x for N rows of weights, so that weights come from memory once.
template <std::int64_t N, class Loader>
HWY_INLINE void tiles_of_rows(const ProductArgs& args, const Loader& weights, std::int64_t n) {
  std::int64_t m = 0;
  for (; m + kTileM <= args.num_rows; m += kTileM) tile<N, kTileM>(args, weights, n, m);
  if (m < args.num_rows) tile_of<N>(args, weights, n, m, args.num_rows - m);
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

// Part of a product that is multiplied from a panel of widened weights.
struct PanelStep {
  std::int64_t row = 0;     // first row of weights
  std::int64_t count = 0;   // rows of weights
  std::int64_t column = 0;  // first column
  std::int64_t width = 0;
  bool first = false;
  bool last = false;
};

template <class Loader>
void fill_panel(const Loader& weights, const PanelStep& step, std::int64_t, float* panel) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t n = 0; n < step.count; ++n) {
    const auto row = weights.row(step.row + n);
    float* out = panel + n * kPanelColumns;
    std::int64_t k = 0;
    for (; k + lanes <= step.width; k += lanes) hn::StoreU(row.load(d, step.column + k), d, out + k);
    const std::int64_t rest = step.width - k;
    if (rest > 0) store_first(d, row.load_partial(d, step.column + k, rest), out + k, rest);
  }
}

// In the order of blocks; `columns` of the whole row say where its last block ends.
void fill_panel(const Nvfp4Loader& weights, const PanelStep& step, std::int64_t columns, float* panel) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t words = columns / Nvfp4Loader::kCodesPerWord;
  for (std::int64_t n = 0; n < step.count; ++n) {
    const Nvfp4Loader::Row row = weights.row(step.row + n);
    float* out = panel + n * kPanelColumns;
    const float* const end = out + step.width;
    for (std::int64_t word = step.column / Nvfp4Loader::kCodesPerWord; out < end; word += lanes) {
      const std::uint8_t* const codes = row.codes + 4 * word;
      const std::uint8_t* const scales = row.scales + word / 2;
      Nvfp4Loader::Block block = word + lanes <= words
                                     ? Nvfp4Loader::load(codes, scales)
                                     : Nvfp4Loader::load_partial(codes, scales, words - word);
      for (std::int64_t j = 0; j < Nvfp4Loader::kCodesPerWord; ++j, out += lanes)
        hn::StoreU(block.next(), d, out);
    }
  }
}

// One tile over the columns of a panel, from row n of the panel and row m of x on. Sums of earlier panels
// come from `carried` and go back; the last ones are folded.
template <std::int64_t N, std::int64_t M>
HWY_INLINE void panel_tile(const ProductArgs& args, const F32Loader& panel, const PanelStep& step,
                           std::int64_t n, std::int64_t m, float* carried) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[N][M];
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < M; ++j)
      acc[i][j] = step.first ? hn::Zero(d) : hn::LoadU(d, carried + (i * M + j) * lanes);
  }
  accumulate<N, M>(panel, n, args.x + m * args.x_stride + step.column, args.x_stride, step.width, acc);
  if (step.last) return fold<N, M>(args, acc, args.out + m * args.out_stride + step.row + n);
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < M; ++j) hn::StoreU(acc[i][j], d, carried + (i * M + j) * lanes);
  }
}

// Every tile of a panel. `carried` holds one vector per output.
template <std::int64_t M>
void panel_rows(const ProductArgs& args, const F32Loader& panel, const PanelStep& step, std::int64_t m,
                float* carried) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  float* const rows = carried + m * kPanelRows * lanes;
  std::int64_t n = 0;
  for (; n + kTileN <= step.count; n += kTileN)
    panel_tile<kTileN, M>(args, panel, step, n, m, rows + n * M * lanes);
  for (; n < step.count; ++n) panel_tile<1, M>(args, panel, step, n, m, rows + n * M * lanes);
}

template <class Loader>
void panels(const ProductArgs& args, const Loader& weights, std::int64_t columns) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t panel_floats = kPanelRows * kPanelColumns;
  const auto needed = static_cast<std::size_t>(panel_floats + args.num_rows * kPanelRows * lanes);
  if (args.scratch->size() < needed) args.scratch->resize(needed);
  float* const panel = args.scratch->data();
  float* const carried = panel + panel_floats;
  const F32Loader loader{panel, kPanelColumns};
  for (std::int64_t row = args.begin; row < args.end; row += kPanelRows) {
    const std::int64_t count = HWY_MIN(kPanelRows, args.end - row);
    for (std::int64_t column = 0; column < columns; column += kPanelColumns) {
      const std::int64_t width = HWY_MIN(kPanelColumns, columns - column);
      const PanelStep step{row, count, column, width, column == 0, column + width == columns};
      fill_panel(weights, step, args.weight.columns, panel);
      std::int64_t m = 0;
      for (; m + kTileM <= args.num_rows; m += kTileM) panel_rows<kTileM>(args, loader, step, m, carried);
      for (; m < args.num_rows; ++m) panel_rows<1>(args, loader, step, m, carried);
    }
  }
}

// `columns` of the laid out x.
template <class Loader>
void run(const ProductArgs& args, const Loader& weights, std::int64_t columns) {
  return args.num_rows <= kDirectRows ? direct(args, weights) : panels(args, weights, columns);
}

void Product(const ProductArgs& args) {
  const WeightRows& weight = args.weight;
  switch (weight.type) {
    case ScalarType::kBF16:
      return run(args, Bf16Loader{weight.data, weight.stride_bytes}, weight.columns);
    case ScalarType::kU8: {
      const auto block = static_cast<std::int64_t>(hn::Lanes(D())) * Nvfp4Loader::kCodesPerWord;
      const std::int64_t columns = (weight.columns + block - 1) / block * block;
      return run(args,
                 Nvfp4Loader{weight.data, weight.stride_bytes, weight.scales, weight.scale_stride_bytes},
                 columns);
    }
    default:
      return run(args, F32Loader{reinterpret_cast<const float*>(weight.data), weight.stride_bytes / 4},
                 weight.columns);
  }
}

void Arrange(const float* x, std::int64_t columns, float* out) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  constexpr std::int64_t kCodes = Nvfp4Loader::kCodesPerWord;
  const std::int64_t words = columns / kCodes;
  for (std::int64_t word = 0; word < words; word += lanes, out += kCodes * lanes) {
    for (std::int64_t i = 0; i < lanes; ++i) {
      for (std::int64_t j = 0; j < kCodes; ++j)
        out[j * lanes + i] = word + i < words ? x[(word + i) * kCodes + j] : 0.0F;
    }
  }
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inkstone::cpu {

HWY_EXPORT(Product);
HWY_EXPORT(Arrange);
void product(const ProductArgs& args) { HWY_DYNAMIC_DISPATCH(Product)(args); }
void arrange(const float* x, std::int64_t columns, float* out) {
  HWY_DYNAMIC_DISPATCH(Arrange)(x, columns, out);
}

}  // namespace inkstone::cpu
#endif
