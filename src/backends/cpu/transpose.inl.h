// SPDX-License-Identifier: Apache-2.0
// backends/cpu/transpose.inl.h - rows to columns, 16 rows at a time; numbers of 32 bits are moved, not read.
// Included once per instruction set.
#if defined(INKSTONE_CPU_TRANSPOSE) == defined(HWY_TARGET_TOGGLE)
#ifdef INKSTONE_CPU_TRANSPOSE
#undef INKSTONE_CPU_TRANSPOSE
#else
#define INKSTONE_CPU_TRANSPOSE
#endif

#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

constexpr std::int64_t kGroupRows = 16;

// Four rows, four numbers of each: number d + j of row i to to[j * stride + i].
HWY_INLINE void transpose_square(const float* const* rows, std::int64_t d, float* to, std::int64_t stride) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t j = 0; j < 4; ++j) {
    for (std::int64_t i = 0; i < 4; ++i) std::memcpy(to + j * stride + i, rows[i] + d + j, sizeof(float));
  }
#else
  const hn::FixedTag<float, 4> four;
  const hn::FixedTag<double, 2> two;
  const auto pair = [&](std::int64_t i, bool upper) {
    const auto a = hn::LoadU(four, rows[i] + d);
    const auto b = hn::LoadU(four, rows[i + 1] + d);
    return hn::BitCast(two, upper ? hn::InterleaveUpper(four, a, b) : hn::InterleaveLower(four, a, b));
  };
  for (const bool upper : {false, true}) {
    const auto a = pair(0, upper);
    const auto b = pair(2, upper);
    float* const out = to + (upper ? 2 * stride : 0);
    hn::StoreU(hn::BitCast(four, hn::InterleaveLower(two, a, b)), four, out);
    hn::StoreU(hn::BitCast(four, hn::InterleaveUpper(two, a, b)), four, out + stride);
  }
#endif
}

#if HWY_TARGET <= HWY_AVX3
// Squares of four rows in each quarter of a vector: square[j] has numbers j, 4 + j, 8 + j, 12 + j of them.
HWY_INLINE void transpose_quarters(const float* const* rows, std::int64_t d, hn::Vec<D> (&square)[4]) {
  const D tag;
  const hn::Repartition<double, D> two;
  const auto a = hn::LoadU(tag, rows[0] + d);
  const auto b = hn::LoadU(tag, rows[1] + d);
  const auto c = hn::LoadU(tag, rows[2] + d);
  const auto e = hn::LoadU(tag, rows[3] + d);
  const auto ab_low = hn::BitCast(two, hn::InterleaveLower(tag, a, b));
  const auto ab_high = hn::BitCast(two, hn::InterleaveUpper(tag, a, b));
  const auto ce_low = hn::BitCast(two, hn::InterleaveLower(tag, c, e));
  const auto ce_high = hn::BitCast(two, hn::InterleaveUpper(tag, c, e));
  square[0] = hn::BitCast(tag, hn::InterleaveLower(two, ab_low, ce_low));
  square[1] = hn::BitCast(tag, hn::InterleaveUpper(two, ab_low, ce_low));
  square[2] = hn::BitCast(tag, hn::InterleaveLower(two, ab_high, ce_high));
  square[3] = hn::BitCast(tag, hn::InterleaveUpper(two, ab_high, ce_high));
}
#endif

// 16 rows, 16 numbers of each: number d + j of row i to to[j * stride + i].
HWY_INLINE void transpose_group(const float* const* rows, std::int64_t d, float* to, std::int64_t stride) {
#if HWY_TARGET <= HWY_AVX3
  const D tag;
  hn::Vec<D> squares[4][4];
  for (std::int64_t i = 0; i < 4; ++i) transpose_quarters(rows + 4 * i, d, squares[i]);
  for (std::int64_t j = 0; j < 4; ++j) {
    // Quarters 0 and 2, then 1 and 3, of two sets of rows each.
    const auto swapped = [&](std::int64_t i) HWY_ATTR { return hn::SwapAdjacentBlocks(squares[i][j]); };
    const auto even_low = hn::OddEvenBlocks(swapped(1), squares[0][j]);
    const auto even_high = hn::OddEvenBlocks(swapped(3), squares[2][j]);
    const auto odd_low = hn::OddEvenBlocks(squares[1][j], swapped(0));
    const auto odd_high = hn::OddEvenBlocks(squares[3][j], swapped(2));
    hn::StoreU(hn::ConcatLowerLower(tag, even_high, even_low), tag, to + j * stride);
    hn::StoreU(hn::ConcatLowerLower(tag, odd_high, odd_low), tag, to + (4 + j) * stride);
    hn::StoreU(hn::ConcatUpperUpper(tag, even_high, even_low), tag, to + (8 + j) * stride);
    hn::StoreU(hn::ConcatUpperUpper(tag, odd_high, odd_low), tag, to + (12 + j) * stride);
  }
#else
  for (std::int64_t j = 0; j < kGroupRows; j += 4) {
    for (std::int64_t i = 0; i < kGroupRows; i += 4)
      transpose_square(rows + i, d + j, to + j * stride + i, stride);
  }
#endif
}

// 16 rows of `columns` numbers to columns of 16.
HWY_INLINE void transpose_rows(const float* const* rows, std::int64_t columns, float* to) {
  std::int64_t d = 0;
  for (; d + kGroupRows <= columns; d += kGroupRows)
    transpose_group(rows, d, to + d * kGroupRows, kGroupRows);
  for (; d < columns; ++d) {
    for (std::int64_t i = 0; i < kGroupRows; ++i) to[d * kGroupRows + i] = rows[i][d];
  }
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
