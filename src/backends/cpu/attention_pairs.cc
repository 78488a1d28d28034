// SPDX-License-Identifier: Apache-2.0
// As attention_block.cc with queries, keys, values and weights rounded to BF16 and multiplied in pairs; sums,
// scores and softmax stay f32. Compiled once per instruction set, see kernels.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention_pairs.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "backends/cpu/attention_softmax.inl.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pairs.inl.h"
#include "backends/cpu/transpose.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

// The block's parts of the scratch memory.
struct PairWork {
  std::int64_t origin;     // position of the first key of the packed groups, a multiple of kGroupKeys
  float* keys;             // [groups][pair_floats(head_dim)][kGroupKeys] pairs of neighbouring columns
  std::uint32_t* values;   // [kBlockKeys / 2][padded_head(head_dim)] pairs of neighbouring positions
  float* scores;           // [kQueries][kBlockKeys] of the queries at work, by position - origin
  std::uint16_t* weights;  // the same, rounded
  float* keep;             // [num_queries] factor of what was summed before
  float* rows;             // [kGroupKeys][pair_floats(head_dim)] on their way to `keys`
};

PairWork split_scratch(const AttentionTile& tile, const KeyBlock& block) {
  const std::int64_t columns = pair_floats(tile.head_dim);
  PairWork work = {};
  work.origin = origin_of(block);
  work.keys = tile.scratch;
  float* next = work.keys + kBlockKeys * columns;
  work.values = reinterpret_cast<std::uint32_t*>(next);
  work.scores = next + kBlockKeys / 2 * padded_head(tile.head_dim);
  next = work.scores + kBlockKeys * kTogether;
  work.weights = reinterpret_cast<std::uint16_t*>(next);
  work.rows = next + kBlockKeys / 2 * kTogether;
  work.keep = work.rows + kGroupKeys * columns;
  return work;
}

// Keys as columns of pairs. Positions outside of the block repeat a key of it: what is computed with them is
// hidden later.
template <bool kHardware>
void pack_key_pairs(const AttentionTile& tile, const KeyBlock& block, const PairWork& work) {
  const std::int64_t columns = pair_floats(tile.head_dim);
  const float* rows[kGroupKeys];
  for (std::int64_t i = 0; i < kGroupKeys; ++i) rows[i] = work.rows + i * columns;
  for (std::int64_t group = work.origin; group < block.end; group += kGroupKeys) {
    prefetch_rows(tile, block, group);
    for (std::int64_t i = 0; i < kGroupKeys; ++i) {
      const std::int64_t at = HWY_MIN(HWY_MAX(group + i, block.begin), block.end - 1) - block.begin;
      store_pairs<kHardware>(block.keys[at], tile.head_dim, 2 * columns, work.rows + i * columns);
    }
    transpose_rows(rows, columns, work.keys + (group - work.origin) * columns);
  }
}

// Values of positions 2 i and 2 i + 1 in one lane a column; zeros for positions outside of the block.
template <bool kHardware>
void pack_value_pairs(const AttentionTile& tile, const KeyBlock& block, const PairWork& work) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t width = padded_head(tile.head_dim);
  const auto row_at = [&](std::int64_t position) {
    return position < block.begin || position >= block.end ? nullptr : block.values[position - block.begin];
  };
  const auto load = [&](const float* row, std::int64_t k) HWY_ATTR {
    if (row == nullptr) return hn::Zero(d);
    const std::int64_t count = tile.head_dim - k;
    return count >= lanes ? hn::LoadU(d, row + k) : load_first(d, row + k, HWY_MAX(count, 0));
  };
  std::uint32_t* to = work.values;
  for (std::int64_t position = work.origin; position < block.end; position += 2, to += width) {
    const float* const even = row_at(position);
    const float* const odd = row_at(position + 1);
    for (std::int64_t k = 0; k < width; k += lanes)
      hn::StoreU(rounded_pair<kHardware>(load(even, k), load(odd, k)), Pairs(), to + k);
  }
}

// q . k of N queries with kVectors vectors of keys: one sum a key, over the pairs of the head in order.
template <std::int64_t N, bool kHardware>
HWY_INLINE void score_pairs(const AttentionTile& tile, const PairWork& work, std::int64_t query,
                            std::int64_t offset) {
  const D d;
  const Pairs du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t columns = pair_floats(tile.head_dim);
  const std::uint32_t* keys[kVectors];
  for (std::int64_t v = 0; v < kVectors; ++v) {
    const std::int64_t at = offset + v * lanes;
    keys[v] = reinterpret_cast<const std::uint32_t*>(work.keys) + at / kGroupKeys * kGroupKeys * columns +
              at % kGroupKeys;
  }
  const auto* const q = reinterpret_cast<const std::uint32_t*>(tile.q) + query * columns;
  hn::Vec<D> acc[N][kVectors];
  for (auto& row : acc) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < columns; ++k) {
    hn::Vec<Pairs> key[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v) key[v] = hn::LoadU(du, keys[v] + k * kGroupKeys);
    for (std::int64_t n = 0; n < N; ++n) {
      const auto value = hn::Set(du, q[n * columns + k]);
      for (std::int64_t v = 0; v < kVectors; ++v) acc[n][v] = add_pairs<kHardware>(acc[n][v], key[v], value);
    }
  }
  for (std::int64_t n = 0; n < N; ++n) {
    float* const scores = work.scores + n * kBlockKeys + offset;
    for (std::int64_t v = 0; v < kVectors; ++v) hn::StoreU(acc[n][v], d, scores + v * lanes);
  }
}

// out = out * keep + sum_i weight_i value_i, pair by pair, for V vectors of the head from `k` on. Weights
// reach over whole groups of positions, with zeros where a query sees nothing.
template <std::int64_t N, std::int64_t V, bool kHardware>
HWY_INLINE void value_pairs(const AttentionTile& tile, const PairWork& work, std::int64_t query,
                            const Span& groups, std::int64_t k) {
  const D d;
  const Pairs du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t width = padded_head(tile.head_dim);
  const auto* const weights = reinterpret_cast<const std::uint32_t*>(work.weights);
  hn::Vec<D> acc[N][V];
  for (auto& row : acc) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  for (std::int64_t pair = (groups.begin - work.origin) / 2; pair < (groups.end - work.origin) / 2; ++pair) {
    const std::uint32_t* const value = work.values + pair * width + k;
    hn::Vec<Pairs> part[V];
    for (std::int64_t v = 0; v < V; ++v) part[v] = hn::LoadU(du, value + v * lanes);
    for (std::int64_t n = 0; n < N; ++n) {
      const auto weight = hn::Set(du, weights[n * kBlockKeys / 2 + pair]);
      for (std::int64_t v = 0; v < V; ++v) acc[n][v] = add_pairs<kHardware>(acc[n][v], part[v], weight);
    }
  }
  for (std::int64_t n = 0; n < N; ++n) {
    float* const out = tile.out + (query + n) * width + k;
    const auto keep = hn::Set(d, work.keep[query + n]);
    for (std::int64_t v = 0; v < V; ++v) {
      float* const to = out + v * lanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, to), keep, acc[n][v]), d, to);
    }
  }
}

template <std::int64_t N, bool kHardware>
HWY_INLINE void attend_pairs_of(const AttentionTile& tile, const KeyBlock& block, const PairWork& work,
                                std::int64_t query) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const Span span = visible(tile, block, query, N);
  if (span.empty()) return;
  const Span groups = span.groups();
  const std::int64_t step = kVectors * lanes;
  for (std::int64_t at = (span.begin - work.origin) / step * step; at < span.end - work.origin; at += step)
    score_pairs<N, kHardware>(tile, work, query, at);
  for (std::int64_t n = 0; n < N; ++n) {
    std::uint16_t* const weights = work.weights + n * kBlockKeys;
    weigh(tile, block, {query + n, work.scores + n * kBlockKeys, work.keep + query + n}, span,
          [&](std::int64_t i, hn::Vec<D> some) HWY_ATTR { store_rounded<kHardware>(some, weights + i); });
  }
  const std::int64_t width = padded_head(tile.head_dim);
  std::int64_t k = 0;
  for (; k + step <= width; k += step) value_pairs<N, kVectors, kHardware>(tile, work, query, groups, k);
  for (; k < width; k += lanes) value_pairs<N, 1, kHardware>(tile, work, query, groups, k);
}

template <bool kHardware>
void attend_block(const AttentionTile& tile, const KeyBlock& block) {
  const PairWork work = split_scratch(tile, block);
  pack_key_pairs<kHardware>(tile, block, work);
  pack_value_pairs<kHardware>(tile, block, work);
  std::int64_t query = 0;
  for (; query + kQueries <= tile.num_queries; query += kQueries)
    attend_pairs_of<kQueries, kHardware>(tile, block, work, query);
  for (; query + 2 <= tile.num_queries; query += 2) attend_pairs_of<2, kHardware>(tile, block, work, query);
  for (; query < tile.num_queries; ++query) attend_pairs_of<1, kHardware>(tile, block, work, query);
}

void AttendPairs(const AttentionTile& tile, const KeyBlock& block) {
  if (offers_pair_product()) {
    attend_block<HWY_TARGET == HWY_AVX3>(tile, block);
  } else {
    attend_block<false>(tile, block);
  }
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inkstone::cpu {

HWY_EXPORT(AttendPairs);
void attend_pairs(const AttentionTile& tile, const KeyBlock& block) {
  HWY_DYNAMIC_DISPATCH(AttendPairs)(tile, block);
}

}  // namespace inkstone::cpu
#endif
