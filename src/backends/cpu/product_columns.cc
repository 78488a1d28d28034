// SPDX-License-Identifier: Apache-2.0
// Products with few columns and many rows of x, compiled once per instruction set: see kernels.h.
// Where a sum has four or eight steps only, folding its lanes costs more than the steps; here a lane is an
// output, and what the lanes of product.cc are comes one after the other, added up in the order in which
// they are folded there. The bits are the same.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/product_columns.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pairs.inl.h"
#include "backends/cpu/transpose.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kTileRows = 6;     // of x
constexpr std::int64_t kTileVectors = 4;  // of outputs

// Weights of V vectors of outputs: number (or pair) `lane + kLanes * step` of output i of vector v is at
// data[((lane * steps + step) * V + v) * kLanes + i].
struct ColumnPanel {
  float* data;
  std::int64_t steps;
  std::int64_t first;  // row of the weight
  std::int64_t count;  // rows that exist, at most V * kLanes
};

// Row of the weight behind output i of vector v, counted from the panel's first: with alternating matrices
// the first half of the vectors is the even rows, so that outputs lie one beside the other.
template <std::int64_t V>
HWY_INLINE std::int64_t row_of(const ProductArgs& args, std::int64_t v, std::int64_t i) {
  if (args.odd_out == nullptr) return v * kLanes + i;
  return 2 * (v % (V / 2) * kLanes + i) + v / (V / 2);
}

// BF16 numbers in pairs, and inputs rounded alike.
struct PairColumns {
  static std::int64_t row_floats(std::int64_t columns) { return pair_floats(columns); }
  static HWY_INLINE void copy(const std::byte* row, std::int64_t columns, float* to) {
    std::memcpy(to, row, static_cast<std::size_t>(2 * columns));
    std::memset(reinterpret_cast<std::byte*>(to) + 2 * columns, 0,
                static_cast<std::size_t>(4 * pair_floats(columns) - 2 * columns));
  }
  static HWY_INLINE hn::Vec<D> add(hn::Vec<D> acc, hn::Vec<D> w, hn::Vec<D> x) {
    return add_pairs<true>(acc, hn::BitCast(Pairs(), w), hn::BitCast(Pairs(), x));
  }
};

// BF16 numbers widened; columns are whole vectors, as inputs have nothing behind their last.
struct FloatColumns {
  static std::int64_t row_floats(std::int64_t columns) { return columns; }
  static HWY_INLINE void copy(const std::byte* row, std::int64_t columns, float* to) {
    const D d;
    const Bf16Loader::Row numbers{reinterpret_cast<const std::uint16_t*>(row)};
    for (std::int64_t k = 0; k < columns; k += kLanes) hn::StoreU(numbers.load(d, k), d, to + k);
  }
  static HWY_INLINE hn::Vec<D> add(hn::Vec<D> acc, hn::Vec<D> w, hn::Vec<D> x) {
    return hn::MulAdd(w, x, acc);
  }
};

template <class Kind, std::int64_t V>
void fill_columns(const ProductArgs& args, const ColumnPanel& panel, float* rows_memory) {
  const std::int64_t row_floats = panel.steps * kLanes;
  for (std::int64_t v = 0; v < V; ++v) {
    const float* rows[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) {
      float* const copy = rows_memory + i * row_floats;
      rows[i] = copy;
      const std::int64_t row = row_of<V>(args, v, i);
      if (row < panel.count) {
        Kind::copy(args.weight.data + (panel.first + row) * args.weight.stride_bytes, args.weight.columns,
                   copy);
      } else {
        std::fill_n(copy, row_floats, 0.0F);
      }
    }
    for (std::int64_t step = 0; step < panel.steps; ++step) {
      transpose_group(rows, step * kLanes, panel.data + (step * V + v) * kLanes, panel.steps * V * kLanes);
    }
  }
}

// The sums of one lane of product.cc for V vectors of outputs and M rows of x.
template <class Kind, std::int64_t V, std::int64_t M>
HWY_INLINE void sum_lane(const ColumnPanel& panel, std::int64_t lane, const float* x, std::int64_t x_stride,
                         hn::Vec<D> (&acc)[M][V]) {
  const D d;
  const float* weights = panel.data + lane * panel.steps * V * kLanes;
  const float* values = x + lane;
  for (auto& row : acc) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  for (std::int64_t step = 0; step < panel.steps; ++step, weights += V * kLanes, values += kLanes) {
    hn::Vec<D> w[V];
#pragma GCC unroll 8
    for (std::int64_t v = 0; v < V; ++v) w[v] = hn::LoadU(d, weights + v * kLanes);
#pragma GCC unroll 8
    for (std::int64_t m = 0; m < M; ++m) {
      const auto value = hn::Set(d, values[m * x_stride]);
#pragma GCC unroll 8
      for (std::int64_t v = 0; v < V; ++v) acc[m][v] = Kind::add(acc[m][v], w[v], value);
    }
  }
}

template <std::int64_t V, std::int64_t M>
HWY_INLINE void keep(const hn::Vec<D> (&acc)[M][V], float* kept) {
#pragma GCC unroll 8
  for (std::int64_t m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (std::int64_t v = 0; v < V; ++v) hn::Store(acc[m][v], D(), kept + (m * V + v) * kLanes);
  }
}

template <std::int64_t V, std::int64_t M>
HWY_INLINE void add_kept(const float* kept, hn::Vec<D> (&acc)[M][V]) {
  const D d;
#pragma GCC unroll 8
  for (std::int64_t m = 0; m < M; ++m) {
#pragma GCC unroll 8
    for (std::int64_t v = 0; v < V; ++v)
      acc[m][v] = hn::Add(hn::Load(d, kept + (m * V + v) * kLanes), acc[m][v]);
  }
}

// acc becomes the sum of acc(0..3) in the order (0 + 1) + (2 + 3), where part(i) puts acc(i) there.
template <std::int64_t V, std::int64_t M, class Part>
HWY_INLINE void sum_of_four(const Part& part, float (*kept)[M * V * kLanes], hn::Vec<D> (&acc)[M][V]) {
  for (std::int64_t i = 0; i < 4; ++i) {
    part(i);
    if (i % 2 == 1) add_kept<V, M>(kept[i / 2], acc);
    if (i < 3) keep<V, M>(acc, kept[i / 2]);
  }
  add_kept<V, M>(kept[0], acc);
}

template <std::int64_t V, std::int64_t M>
HWY_INLINE void put_rows(const ProductArgs& args, const ColumnPanel& panel, std::int64_t m,
                         const hn::Vec<D> (&sums)[M][V]) {
  const D d;
  const auto factor = hn::Set(d, args.weight.scale2);
  const bool alternate = args.odd_out != nullptr;
  for (std::int64_t v = 0; v < V; ++v) {
    const std::int64_t first = row_of<V>(args, v, 0);
    const std::int64_t left = panel.count - first;
    const std::int64_t count = HWY_MIN(kLanes, alternate ? (left + 1) / 2 : left);
    float* const out = alternate && v >= V / 2 ? args.odd_out : args.out;
    const std::int64_t column = alternate ? (panel.first + first) / 2 : panel.first + first;
    for (std::int64_t i = 0; i < M && count > 0; ++i) {
      float* const to = out + (m + i) * args.out_stride + column;
      const auto value = hn::Mul(sums[i][v], factor);
      if (count == kLanes) {
        hn::StoreU(value, d, to);
      } else {
        store_first(d, value, to, count);
      }
    }
  }
}

// Lanes in the order of the additions that fold them: lanes 0 and 2, 1 and 3 of each quarter, then both;
// quarters 0 and 2, 1 and 3, then both.
template <class Kind, std::int64_t V, std::int64_t M>
HWY_NOINLINE void column_tile(const ProductArgs& args, const ColumnPanel& panel, std::int64_t m) {
  constexpr std::int64_t kOrder[4] = {0, 2, 1, 3};
  HWY_ALIGN float lanes[2][M * V * kLanes];
  HWY_ALIGN float quarters[2][M * V * kLanes];
  const float* const x = args.x + m * args.x_stride;
  hn::Vec<D> acc[M][V];
  const auto quarter = [&](std::int64_t q) HWY_ATTR {
    const auto lane = [&](std::int64_t i) HWY_ATTR {
      sum_lane<Kind, V, M>(panel, 4 * kOrder[q] + kOrder[i], x, args.x_stride, acc);
    };
    sum_of_four<V, M>(lane, lanes, acc);
  };
  sum_of_four<V, M>(quarter, quarters, acc);
  put_rows<V, M>(args, panel, m, acc);
}

template <class Kind, std::int64_t V>
void column_panel(const ProductArgs& args, const ColumnPanel& panel, float* rows_memory) {
  fill_columns<Kind, V>(args, panel, rows_memory);
  std::int64_t m = 0;
  for (; m + kTileRows <= args.num_rows; m += kTileRows) column_tile<Kind, V, kTileRows>(args, panel, m);
  for (; m < args.num_rows; ++m) column_tile<Kind, V, 1>(args, panel, m);
}

template <class Kind>
void column_panels(const ProductArgs& args) {
  const std::int64_t row_floats = Kind::row_floats(args.weight.columns);
  const auto needed = static_cast<std::size_t>((kTileVectors + 1) * kLanes * row_floats);
  if (args.scratch->size() < needed) args.scratch->resize(needed);
  float* const rows_memory = args.scratch->data();
  ColumnPanel panel = {rows_memory + kLanes * row_floats, row_floats / kLanes, args.begin, 0};
  for (; panel.first < args.end; panel.first += panel.count) {
    const std::int64_t left = args.end - panel.first;
    if (left >= kTileVectors * kLanes) {
      panel.count = kTileVectors * kLanes;
      column_panel<Kind, kTileVectors>(args, panel, rows_memory);
    } else {
      panel.count = HWY_MIN(left, 2 * kLanes);
      column_panel<Kind, 2>(args, panel, rows_memory);
    }
  }
}

bool ColumnProduct(const ProductArgs& args) {
  if (args.rounded_x ? !offers_pair_product() : args.weight.columns % kLanes != 0) return false;
  if (args.rounded_x) {
    column_panels<PairColumns>(args);
  } else {
    column_panels<FloatColumns>(args);
  }
  return true;
}

#else

bool ColumnProduct(const ProductArgs&) { return false; }

#endif

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inkstone::cpu {

HWY_EXPORT(ColumnProduct);
bool column_product(const ProductArgs& args) { return HWY_DYNAMIC_DISPATCH(ColumnProduct)(args); }

}  // namespace inkstone::cpu
#endif
