// SPDX-License-Identifier: Apache-2.0
// backends/cpu/attention_softmax.inl.h - what lies between the scores of a block of keys and the sum of its
// values. Included once per instruction set.
#if defined(INKSTONE_CPU_ATTENTION_SOFTMAX) == defined(HWY_TARGET_TOGGLE)
#ifdef INKSTONE_CPU_ATTENTION_SOFTMAX
#undef INKSTONE_CPU_ATTENTION_SOFTMAX
#else
#define INKSTONE_CPU_ATTENTION_SOFTMAX
#endif

#include <cmath>

#include "backends/cpu/kernels.h"
#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

// Queries, and vectors of keys or of a head, whose sums are in registers together.
constexpr std::int64_t kQueries = HWY_TARGET <= HWY_AVX3 ? 6 : 4;
constexpr std::int64_t kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;
static_assert(kQueries <= kTogether);

// Positions that some query of a range sees in the block, and from where to where its vectors reach.
struct Span {
  std::int64_t begin;
  std::int64_t end;
  [[nodiscard]] bool empty() const { return begin >= end; }
  // Whole groups of positions, so that a lane always means the same ones.
  [[nodiscard]] Span groups() const {
    return {begin / kGroupKeys * kGroupKeys, (end + kGroupKeys - 1) / kGroupKeys * kGroupKeys};
  }
};

HWY_INLINE Span visible(const AttentionTile& tile, const KeyBlock& block, std::int64_t query) {
  return {HWY_MAX(block.begin, tile.first_key(query)), HWY_MIN(block.end, tile.position[query] + 1)};
}

HWY_INLINE Span visible(const AttentionTile& tile, const KeyBlock& block, std::int64_t query,
                        std::int64_t count) {
  Span all = {block.end, block.begin};
  for (std::int64_t i = query; i < query + count; ++i) {
    const Span one = visible(tile, block, i);
    if (one.empty()) continue;
    all = {HWY_MIN(all.begin, one.begin), HWY_MAX(all.end, one.end)};
  }
  return all;
}

// Position of the first key of the packed groups, a multiple of kGroupKeys.
HWY_INLINE std::int64_t origin_of(const KeyBlock& block) { return block.begin / kGroupKeys * kGroupKeys; }

// Asks for the values of 16 positions and for the keys of the 16 behind them: rows of one head lie apart, so
// that the processor does not by itself read ahead.
HWY_INLINE void prefetch_rows(const AttentionTile& tile, const KeyBlock& block, std::int64_t group) {
  constexpr std::int64_t kLine = 16;
  const auto fetch = [&](const float* row) HWY_ATTR {
    for (std::int64_t k = 0; k < tile.head_dim; k += kLine) hwy::Prefetch(row + k);
  };
  for (std::int64_t i = HWY_MAX(group, block.begin); i < HWY_MIN(group + kGroupKeys, block.end); ++i) {
    fetch(block.values[i - block.begin]);
    if (i + kGroupKeys < block.end) fetch(block.keys[i + kGroupKeys - block.begin]);
  }
}

// The relative part of the scores of one query at vectors [begin, end) of positions.
HWY_INLINE void add_relative(const AttentionTile& tile, std::int64_t query, const Span& vectors,
                             float* scores) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* const rel = tile.rel[query];
  const float* const column = tile.relative + tile.extent - 1 - tile.position[query];  // of position 0
  const std::int64_t near = tile.position[query] - tile.extent + 1;  // first with a relative part
  for (std::int64_t at = vectors.begin; at < vectors.end && at <= tile.position[query];
       at += lanes, scores += lanes) {
    if (at + lanes <= near) continue;
    auto sum = hn::Zero(d);
    for (std::int64_t m = 0; m < tile.d_rel; ++m)
      sum = hn::MulAdd(hn::LoadU(d, column + m * tile.relative_stride + at), hn::Set(d, rel[m]), sum);
    hn::StoreU(hn::Add(hn::LoadU(d, scores), sum), d, scores);
  }
}

HWY_INLINE void hide(const Span& shown, const Span& vectors, float* scores) {
  for (std::int64_t at = vectors.begin; at < shown.begin; ++at) scores[at - vectors.begin] = kNoScore;
  for (std::int64_t at = shown.end; at < vectors.end; ++at) scores[at - vectors.begin] = kNoScore;
}

HWY_INLINE float largest_of(const float* scores, std::int64_t count) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto largest = hn::Set(d, kNoScore);
  for (std::int64_t i = 0; i < count; i += lanes) largest = hn::Max(largest, hn::LoadU(d, scores + i));
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// e^x for x <= 0, zero where that is below the smallest normal number: 2^n times a polynomial in what is left
// of x, of degree 6 and least relative error on [-ln 2 / 2, ln 2 / 2] (2e-9, a thirtieth of a rounding).
HWY_INLINE hn::Vec<D> exponential(hn::Vec<D> x) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  // Adding it leaves the nearest whole number in the lowest bits.
  const auto magic = hn::Set(d, 12582912.0F);
  const auto shifted = hn::MulAdd(x, hn::Set(d, 1.442695041F), magic);
  const auto whole = hn::Sub(shifted, magic);
  // ln 2 in two parts, the first with so few bits that its product with `whole` is exact.
  auto rest = hn::NegMulAdd(whole, hn::Set(d, 0.693359375F), x);
  rest = hn::NegMulAdd(whole, hn::Set(d, -2.12194440e-4F), rest);
  auto value = hn::Set(d, 1.3836835e-3F);
  for (const float coefficient : {8.3748248e-3F, 4.1668225e-2F, 1.6666420e-1F, 4.9999991e-1F, 1.0F, 1.0F})
    value = hn::MulAdd(value, rest, hn::Set(d, coefficient));
  const auto power = hn::ShiftLeft<23>(hn::BitCast(du, shifted));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(du, value), power));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0F)), scaled);
}

struct QueryScores {
  std::int64_t query;
  float* scores;  // [kBlockKeys] from origin on
  float* keep;    // takes the factor of what was summed up before
};

// Weights e^(score - largest so far) of one query for the positions of `span`, which other queries may see,
// to store(i, vector) with i counted from origin; zeros where this one sees nothing.
template <class Store>
HWY_INLINE void weigh(const AttentionTile& tile, const KeyBlock& block, const QueryScores& row,
                      const Span& span, const Store& store) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Span shown = visible(tile, block, row.query);
  const Span vectors = span.groups();
  const std::int64_t first = vectors.begin - origin_of(block);
  const std::int64_t last = vectors.end - origin_of(block);
  *row.keep = 1;
  if (shown.empty()) {
    for (std::int64_t i = first; i < last; i += lanes) store(i, hn::Zero(d));
    return;
  }
  float* const scores = row.scores;
  add_relative(tile, row.query, vectors, scores + first);
  hide(shown, vectors, scores + first);
  const float before = tile.largest[row.query];
  const float largest = HWY_MAX(before, largest_of(scores + first, last - first));
  const auto shift = hn::Set(d, largest);
  auto total = hn::Zero(d);
  for (std::int64_t i = first; i < last; i += lanes) {
    const auto value = exponential(hn::Sub(hn::LoadU(d, scores + i), shift));
    store(i, value);
    total = hn::Add(total, value);
  }
  if (largest > before) *row.keep = std::exp(before - largest);
  tile.sum[row.query] = tile.sum[row.query] * *row.keep + hn::GetLane(hn::SumOfLanes(d, total));
  tile.largest[row.query] = largest;
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
