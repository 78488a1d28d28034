// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set: see kernels.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pairs.inl.h"
#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

// Values of NVFP4 weights and, one vector for eight, their scales.
struct ScaledPanel {
  const float* data;    // [kPanelRows][kPanelColumns]
  const float* scales;  // [kPanelRows][kPanelColumns / 8]
};

// Weight rows by x rows of one register tile: accumulators, one row of weights and of x each must fit the
// registers. NVFP4 has two sums an output: of the half block at work and of those before it. kStreamed rows
// of weights are read together where one or two rows of x are all there is.
template <class Loader>
struct TileSize {
  static constexpr std::int64_t kStreamed = 1;
  static constexpr std::int64_t kN = 4;
  static constexpr std::int64_t kM = HWY_TARGET <= HWY_AVX3 ? 6 : 3;
};
struct ScaledSize {
  static constexpr std::int64_t kStreamed = 2;
  static constexpr std::int64_t kN = 2;
  static constexpr std::int64_t kM = HWY_TARGET <= HWY_AVX3 ? 5 : 2;
};
template <>
struct TileSize<Nvfp4Loader> : ScaledSize {};
template <>
struct TileSize<ScaledPanel> : ScaledSize {};
// Rows of weights are read this far ahead, or as far as the next tile: the processor by itself stops at the
// end of each page.
constexpr std::int64_t kAheadBytes = 8192;
// Up to this many rows of x weights are widened in registers, beyond it once per panel into memory.
constexpr std::int64_t kDirectRows = 16;
// Up to so many columns folding the lanes costs enough to avoid it.
constexpr std::int64_t kFewColumns = 1024;
// Panel: rows of weights by columns, 128 KB of floats: half of a small second-level cache.
constexpr std::int64_t kPanelRows = 32;
constexpr std::int64_t kPanelColumns = 1024;

// acc[n][m] += w_n x_m at one vector of columns.
template <std::int64_t N, std::int64_t M, class Row>
HWY_INLINE void add_vector(const Row (&rows)[N], std::int64_t k, const float* x, std::int64_t x_stride,
                           hn::Vec<D> (&acc)[N][M]) {
  const D d;
  hn::Vec<D> w[N];
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) w[n] = rows[n].load(d, k);
#pragma GCC unroll 8
  for (std::int64_t m = 0; m < M; ++m) {
    const auto value = hn::LoadU(d, x + m * x_stride + k);
#pragma GCC unroll 8
    for (std::int64_t n = 0; n < N; ++n) acc[n][m] = hn::MulAdd(w[n], value, acc[n][m]);
  }
}

// acc[n][m] += w_n . x_m over columns [0, columns) of the given rows.
template <std::int64_t N, std::int64_t M, class Loader>
HWY_INLINE void accumulate(const Loader& weights, std::int64_t first, const float* x, std::int64_t x_stride,
                           std::int64_t columns, hn::Vec<D> (&acc)[N][M]) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  typename Loader::Row rows[N];
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) rows[n] = weights.row(first + n);
  std::int64_t k = 0;
  for (; k + 2 * lanes <= columns; k += 2 * lanes) {
    if constexpr (Loader::kStreamed) {
      const std::int64_t ahead = N == 1 ? kAheadBytes : N * weights.stride_bytes;
#pragma GCC unroll 8
      for (std::int64_t n = 0; n < N; ++n) rows[n].prefetch(k, ahead);
    }
    add_vector(rows, k, x, x_stride, acc);
    add_vector(rows, k + lanes, x, x_stride, acc);
  }
  for (; k + lanes <= columns; k += lanes) add_vector(rows, k, x, x_stride, acc);
  if (k == columns) return;
  const std::int64_t rest = columns - k;
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) {
    const auto w = rows[n].load_partial(d, k, rest);
#pragma GCC unroll 8
    for (std::int64_t m = 0; m < M; ++m) {
      const auto value = load_first(d, x + m * x_stride + k, rest);
      acc[n][m] = hn::MulAdd(w, value, acc[n][m]);
    }
  }
}

// acc[n][m] += scale_n (w_n . x_m) over half a block; `weight(n, j)` is called in order of j.
template <std::int64_t N, std::int64_t M, class Weight>
HWY_INLINE void add_half_block(const Weight& weight, const hn::Vec<D> (&scales)[N], const float* x,
                               std::int64_t x_stride, hn::Vec<D> (&acc)[N][M]) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<D> sum[N][M];
  hn::Vec<D> w[N];
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) w[n] = weight(n, 0);
#pragma GCC unroll 8
  for (std::int64_t m = 0; m < M; ++m) {
    const auto value = hn::LoadU(d, x + m * x_stride);
#pragma GCC unroll 8
    for (std::int64_t n = 0; n < N; ++n) sum[n][m] = hn::Mul(w[n], value);
  }
#pragma GCC unroll 8
  for (std::int64_t j = 1; j < Nvfp4Loader::kCodesPerWord; ++j) {
#pragma GCC unroll 8
    for (std::int64_t n = 0; n < N; ++n) w[n] = weight(n, j);
#pragma GCC unroll 8
    for (std::int64_t m = 0; m < M; ++m) {
      const auto value = hn::LoadU(d, x + m * x_stride + j * lanes);
#pragma GCC unroll 8
      for (std::int64_t n = 0; n < N; ++n) sum[n][m] = hn::MulAdd(w[n], value, sum[n][m]);
    }
  }
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) {
#pragma GCC unroll 8
    for (std::int64_t m = 0; m < M; ++m) acc[n][m] = hn::MulAdd(sum[n][m], scales[n], acc[n][m]);
  }
}

// Both halves are spelled out: in a loop the words would go through memory.
template <std::int64_t N, std::int64_t M>
HWY_INLINE void add_block(const Nvfp4Loader::Block (&blocks)[N], const float* x, std::int64_t x_stride,
                          hn::Vec<D> (&acc)[N][M]) {
  hn::Vec<D> scales[N];
  hn::Vec<Nvfp4Loader::U> words[N];
  const auto weight = [&](std::int64_t n, std::int64_t) HWY_ATTR {
    const auto values = Nvfp4Loader::values(words[n]);
    words[n] = hn::ShiftRight<4>(words[n]);
    return values;
  };
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) scales[n] = blocks[n].scales;
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) words[n] = blocks[n].even;
  add_half_block(weight, scales, x, x_stride, acc);
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) words[n] = blocks[n].odd;
  add_half_block(weight, scales, x + Nvfp4Loader::block_columns() / 2, x_stride, acc);
}

template <std::int64_t N, std::int64_t M>
HWY_INLINE void accumulate(const Nvfp4Loader& weights, std::int64_t first, const float* x,
                           std::int64_t x_stride, std::int64_t columns, hn::Vec<D> (&acc)[N][M]) {
  constexpr std::int64_t kLine = 64;
  const std::int64_t block_columns = Nvfp4Loader::block_columns();
  const std::int64_t block_words = block_columns / Nvfp4Loader::kCodesPerWord;
  const std::int64_t words = columns / Nvfp4Loader::kCodesPerWord;
  const std::int64_t ahead = HWY_MAX(kAheadBytes, N * weights.stride_bytes);
  Nvfp4Loader::Row rows[N];
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n) rows[n] = weights.row(first + n);
  Nvfp4Loader::Block blocks[N];
  std::int64_t word = 0;
  for (; word + block_words <= words; word += block_words, x += block_columns) {
#pragma GCC unroll 8
    for (std::int64_t n = 0; n < N; ++n) {
      const std::uint8_t* const codes = rows[n].codes + 4 * word;
      blocks[n] = Nvfp4Loader::load(codes, rows[n].scales + word / 2);
      for (std::int64_t byte = 0; byte < 4 * block_words; byte += kLine) hwy::Prefetch(codes + byte + ahead);
    }
    add_block(blocks, x, x_stride, acc);
  }
  if (word == words) return;
#pragma GCC unroll 8
  for (std::int64_t n = 0; n < N; ++n)
    blocks[n] = Nvfp4Loader::load_partial(rows[n].codes + 4 * word, rows[n].scales + word / 2, words - word);
  add_block(blocks, x, x_stride, acc);
}

// From a panel, `columns` a multiple of half a block.
template <std::int64_t N, std::int64_t M>
HWY_INLINE void accumulate(const ScaledPanel& panel, std::int64_t first, const float* x,
                           std::int64_t x_stride, std::int64_t columns, hn::Vec<D> (&acc)[N][M]) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t k = 0; k < columns; k += Nvfp4Loader::kCodesPerWord * lanes) {
    hn::Vec<D> scales[N];
#pragma GCC unroll 8
    for (std::int64_t n = 0; n < N; ++n)
      scales[n] = hn::LoadU(d, panel.scales + ((first + n) * kPanelColumns + k) / Nvfp4Loader::kCodesPerWord);
    const auto weight = [&](std::int64_t n, std::int64_t j) HWY_ATTR {
      return hn::LoadU(d, panel.data + (first + n) * kPanelColumns + k + j * lanes);
    };
    add_half_block(weight, scales, x + k, x_stride, acc);
  }
}

template <std::int64_t N, std::int64_t M, bool kHardware>
HWY_INLINE void accumulate(const PairLoader<kHardware>& weights, std::int64_t first, const float* x,
                           std::int64_t x_stride, std::int64_t columns, hn::Vec<D> (&acc)[N][M]) {
  const hn::RebindToUnsigned<D> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(du));
  const std::int64_t ahead = N == 1 ? kAheadBytes : N * weights.stride_bytes;
  const auto add = [&](const auto& load, std::int64_t k) HWY_ATTR {
    hn::Vec<decltype(du)> w[N];
#pragma GCC unroll 8
    for (std::int64_t n = 0; n < N; ++n) w[n] = load(weights.row(first + n), k);
#pragma GCC unroll 8
    for (std::int64_t m = 0; m < M; ++m) {
      const auto value = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(x + m * x_stride) + k);
#pragma GCC unroll 8
      for (std::int64_t n = 0; n < N; ++n) acc[n][m] = add_pairs<kHardware>(acc[n][m], w[n], value);
    }
  };
  std::int64_t k = 0;  // in pairs
  for (; 2 * (k + lanes) <= columns; k += lanes) {
    add(
        [&](const std::uint16_t* row, std::int64_t at) HWY_ATTR {
          hwy::Prefetch(reinterpret_cast<const std::byte*>(row + 2 * at) + ahead);
          return hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(row + 2 * at));
        },
        k);
  }
  if (2 * k == columns) return;
  add(
      [&](const std::uint16_t* row, std::int64_t at) HWY_ATTR {
        HWY_ALIGN std::uint32_t padded[16] = {};
        std::memcpy(padded, row + 2 * at, static_cast<std::size_t>(columns - 2 * at) * 2);
        return hn::Load(du, padded);
      },
      k);
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

// Four outputs from row n of the weight on (even where rows alternate), for row m of x.
HWY_INLINE void put_four(const ProductArgs& args, std::int64_t n, std::int64_t m, const float* four) {
  if (args.odd_out == nullptr) {
    std::memcpy(args.out + m * args.out_stride + n, four, 4 * sizeof(float));
    return;
  }
  float* const even = args.out + m * args.out_stride + n / 2;
  float* const odd = args.odd_out + m * args.out_stride + n / 2;
  even[0] = four[0];
  odd[0] = four[1];
  even[1] = four[2];
  odd[1] = four[3];
}

HWY_INLINE void put(const ProductArgs& args, std::int64_t n, std::int64_t m, float value) {
  if (args.odd_out == nullptr) {
    args.out[m * args.out_stride + n] = value;
  } else {
    float* const out = n % 2 == 0 ? args.out : args.odd_out;
    out[m * args.out_stride + n / 2] = value;
  }
}

// Sums of row n of the weight on, for rows of x from m on.
template <std::int64_t N, std::int64_t M>
HWY_INLINE void fold(const ProductArgs& args, const hn::Vec<D> (&acc)[N][M], std::int64_t n, std::int64_t m) {
  const float factor = args.weight.scale2;
  float four[4] = {};
  if constexpr (N == 4) {
    for (std::int64_t j = 0; j < M; ++j) {
      fold_four(acc[0][j], acc[1][j], acc[2][j], acc[3][j], factor, four);
      put_four(args, n, m + j, four);
    }
    return;
  }
  // Outputs of neighbouring rows of x in one vector; the last may be there several times.
  constexpr std::int64_t kLast = N * M - 1;
  const auto at = [&](std::int64_t i) HWY_ATTR {
    i = HWY_MIN(i, kLast);
    return acc[i % N][i / N];
  };
  for (std::int64_t i = 0; i <= kLast; i += 4) {
    fold_four(at(i), at(i + 1), at(i + 2), at(i + 3), factor, four);
    for (std::int64_t j = i; j <= HWY_MIN(i + 3, kLast); ++j) put(args, n + j % N, m + j / N, four[j - i]);
  }
}

template <std::int64_t N, std::int64_t M, class Loader>
HWY_NOINLINE void tile(const ProductArgs& args, const Loader& weights, std::int64_t n, std::int64_t m) {
  const D d;
  hn::Vec<D> acc[N][M];
  for (auto& row : acc) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  accumulate<N, M>(weights, n, args.x + m * args.x_stride, args.x_stride, args.weight.columns, acc);
  fold<N, M>(args, acc, n, m);
}

// Rows [m, m + count) of x, at most a full tile.
template <std::int64_t N, std::int64_t M, class Loader>
HWY_INLINE void tile_of(const ProductArgs& args, const Loader& weights, std::int64_t n, std::int64_t m,
                        std::int64_t count) {
  if (count == M) return tile<N, M>(args, weights, n, m);
  if constexpr (M > 1) tile_of<N, M - 1>(args, weights, n, m, count);
}

// All rows of x for N rows of weights, so that weights come from memory once.
template <std::int64_t N, class Loader>
HWY_INLINE void tiles_of_rows(const ProductArgs& args, const Loader& weights, std::int64_t n) {
  constexpr std::int64_t kM = TileSize<Loader>::kM;
  for (std::int64_t m = 0; m < args.num_rows; m += kM)
    tile_of<N, kM>(args, weights, n, m, HWY_MIN(kM, args.num_rows - m));
}

// Few rows of x, which stay in the first-level cache: weights in the order of memory, which is read fastest
// so.
template <std::int64_t M, class Loader>
HWY_NOINLINE void stream(const ProductArgs& args, const Loader& weights, std::int64_t n) {
  hn::Vec<D> acc[4][M];
  constexpr std::int64_t kN = M == 1 ? TileSize<Loader>::kStreamed : 1;
  for (std::int64_t i = 0; i < 4; i += kN) {
    hn::Vec<D> some[kN][M];
    for (auto& row : some) {
      for (auto& sum : row) sum = hn::Zero(D());
    }
    accumulate<kN, M>(weights, n + i, args.x, args.x_stride, args.weight.columns, some);
    for (std::int64_t j = 0; j < kN; ++j) {
      for (std::int64_t m = 0; m < M; ++m) acc[i + j][m] = some[j][m];
    }
  }
  fold<4, M>(args, acc, n, 0);
}

template <class Loader>
void direct(const ProductArgs& args, const Loader& weights) {
  constexpr std::int64_t kN = TileSize<Loader>::kN;
  std::int64_t n = args.begin;
  for (; args.num_rows == 1 && n + 4 <= args.end; n += 4) stream<1>(args, weights, n);
  for (; args.num_rows == 2 && n + 4 <= args.end; n += 4) stream<2>(args, weights, n);
  for (; n + kN <= args.end; n += kN) tiles_of_rows<kN>(args, weights, n);
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

// Where a step's weights go, and what multiplies them from there.
struct PanelMemory {
  float* data;
  float* scales;
};
template <class Loader>
F32Loader panel_of(const Loader&, const PanelMemory& memory) {
  return {memory.data, kPanelColumns};
}
ScaledPanel panel_of(const Nvfp4Loader&, const PanelMemory& memory) { return {memory.data, memory.scales}; }

template <class Loader>
void fill_panel(const Loader& weights, const PanelStep& step, std::int64_t, const PanelMemory& panel) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t n = 0; n < step.count; ++n) {
    const auto row = weights.row(step.row + n);
    float* out = panel.data + n * kPanelColumns;
    std::int64_t k = 0;
    for (; k + lanes <= step.width; k += lanes) hn::StoreU(row.load(d, step.column + k), d, out + k);
    const std::int64_t rest = step.width - k;
    if (rest > 0) store_first(d, row.load_partial(d, step.column + k, rest), out + k, rest);
  }
}

// In the order of blocks; `columns` of the whole row say where its last block ends.
void fill_panel(const Nvfp4Loader& weights, const PanelStep& step, std::int64_t columns,
                const PanelMemory& panel) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t block_words = 2 * lanes;
  const std::int64_t words = columns / Nvfp4Loader::kCodesPerWord;
  for (std::int64_t n = 0; n < step.count; ++n) {
    const Nvfp4Loader::Row row = weights.row(step.row + n);
    float* out = panel.data + n * kPanelColumns;
    float* scales = panel.scales + n * kPanelColumns / Nvfp4Loader::kCodesPerWord;
    const float* const end = out + step.width;
    for (std::int64_t word = step.column / Nvfp4Loader::kCodesPerWord; out < end; word += block_words) {
      const std::uint8_t* const codes = row.codes + 4 * word;
      const Nvfp4Loader::Block block =
          word + block_words <= words ? Nvfp4Loader::load(codes, row.scales + word / 2)
                                      : Nvfp4Loader::load_partial(codes, row.scales + word / 2, words - word);
      for (auto half : {block.even, block.odd}) {
        for (std::int64_t j = 0; j < Nvfp4Loader::kCodesPerWord; ++j, out += lanes) {
          hn::StoreU(Nvfp4Loader::values(half), d, out);
          half = hn::ShiftRight<4>(half);
        }
        hn::StoreU(block.scales, d, scales);
        scales += lanes;
      }
    }
  }
}

// One tile over the columns of a panel, from row n of the panel and row m of x on. Sums of earlier panels
// come from `carried` and go back; the last ones are folded.
template <std::int64_t N, std::int64_t M, class Panel>
HWY_NOINLINE void panel_tile(const ProductArgs& args, const Panel& panel, const PanelStep& step,
                             std::int64_t n, std::int64_t m, float* carried) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[N][M];
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < M; ++j)
      acc[i][j] = step.first ? hn::Zero(d) : hn::LoadU(d, carried + (i * M + j) * lanes);
  }
  accumulate<N, M>(panel, n, args.x + m * args.x_stride + step.column, args.x_stride, step.width, acc);
  if (step.last) return fold<N, M>(args, acc, step.row + n, m);
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < M; ++j) hn::StoreU(acc[i][j], d, carried + (i * M + j) * lanes);
  }
}

// Every tile of a panel. `carried` holds one vector per output.
template <std::int64_t M, class Panel>
void panel_rows(const ProductArgs& args, const Panel& panel, const PanelStep& step, std::int64_t m,
                float* carried) {
  constexpr std::int64_t kN = TileSize<Panel>::kN;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  float* const rows = carried + m * kPanelRows * lanes;
  std::int64_t n = 0;
  for (; n + kN <= step.count; n += kN) panel_tile<kN, M>(args, panel, step, n, m, rows + n * M * lanes);
  for (; n < step.count; ++n) panel_tile<1, M>(args, panel, step, n, m, rows + n * M * lanes);
}

template <class Loader>
void panels(const ProductArgs& args, const Loader& weights, std::int64_t columns) {
  constexpr std::int64_t kM = TileSize<decltype(panel_of(weights, PanelMemory()))>::kM;
  constexpr std::int64_t kFloats = kPanelRows * kPanelColumns;
  constexpr std::int64_t kScales = kFloats / Nvfp4Loader::kCodesPerWord;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const auto needed = static_cast<std::size_t>(kFloats + kScales + args.num_rows * kPanelRows * lanes);
  if (args.scratch->size() < needed) args.scratch->resize(needed);
  const PanelMemory memory{args.scratch->data(), args.scratch->data() + kFloats};
  float* const carried = memory.scales + kScales;
  const auto panel = panel_of(weights, memory);
  for (std::int64_t row = args.begin; row < args.end; row += kPanelRows) {
    const std::int64_t count = HWY_MIN(kPanelRows, args.end - row);
    for (std::int64_t column = 0; column < columns; column += kPanelColumns) {
      const std::int64_t width = HWY_MIN(kPanelColumns, columns - column);
      const PanelStep step{row, count, column, width, column == 0, column + width == columns};
      fill_panel(weights, step, args.weight.columns, memory);
      std::int64_t m = 0;
      for (; m + kM <= args.num_rows; m += kM) panel_rows<kM>(args, panel, step, m, carried);
      for (; m < args.num_rows; ++m) panel_rows<1>(args, panel, step, m, carried);
    }
  }
}

// Rounded inputs: weights are multiplied as they are stored, so there is nothing to gain from a panel. Rows
// of x in blocks that stay in the second-level cache.
template <class Loader>
void run_pairs(const ProductArgs& args, const Loader& weights) {
  constexpr std::int64_t kBlock = 60;
  ProductArgs block = args;
  for (std::int64_t m = 0; m < args.num_rows; m += kBlock) {
    block.num_rows = HWY_MIN(kBlock, args.num_rows - m);
    direct(block, weights);
    block.x += kBlock * args.x_stride;
    block.out += kBlock * args.out_stride;
    if (block.odd_out != nullptr) block.odd_out += kBlock * args.out_stride;
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
      if (args.num_rows > kDirectRows && weight.columns <= kFewColumns && column_product(args)) return;
      if (args.rounded_x && offers_pair_product())
        return run_pairs(args, PairLoader<HWY_TARGET == HWY_AVX3>{weight.data, weight.stride_bytes});
      if (args.rounded_x) return run_pairs(args, PairLoader<false>{weight.data, weight.stride_bytes});
      return run(args, Bf16Loader{weight.data, weight.stride_bytes}, weight.columns);
    case ScalarType::kU8: {
      const std::int64_t block = Nvfp4Loader::block_columns();
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
  for (std::int64_t word = 0; word < words; word += 2 * lanes) {
    for (std::int64_t half = 0; half < 2; ++half, out += kCodes * lanes) {
      for (std::int64_t i = 0; i < lanes; ++i) {
        const std::int64_t at = word + 2 * i + half;
        for (std::int64_t j = 0; j < kCodes; ++j) out[j * lanes + i] = at < words ? x[at * kCodes + j] : 0.0F;
      }
    }
  }
}

void RoundToPairs(const float* x, std::int64_t columns, float* out) {
  const std::int64_t padded = 2 * pair_floats(columns);
  if (offers_pair_product()) {
    store_pairs<HWY_TARGET == HWY_AVX3>(x, columns, padded, out);
  } else {
    store_pairs<false>(x, columns, padded, out);
  }
}

bool HasPairProduct() { return offers_pair_product(); }

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inkstone::cpu {

HWY_EXPORT(Product);
HWY_EXPORT(Arrange);
HWY_EXPORT(RoundToPairs);
HWY_EXPORT(HasPairProduct);
void product(const ProductArgs& args) { HWY_DYNAMIC_DISPATCH(Product)(args); }
void arrange(const float* x, std::int64_t columns, float* out) {
  HWY_DYNAMIC_DISPATCH(Arrange)(x, columns, out);
}

void round_to_pairs(const float* x, std::int64_t columns, float* out) {
  HWY_DYNAMIC_DISPATCH(RoundToPairs)(x, columns, out);
}
bool has_pair_product() { return HWY_DYNAMIC_DISPATCH(HasPairProduct)(); }

}  // namespace inkstone::cpu
#endif
