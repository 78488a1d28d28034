// SPDX-License-Identifier: Apache-2.0
// Scores, softmax and weighted values of one block of keys for a tile of queries, all in f32: compiled once
// per instruction set, see kernels.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention_block.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "backends/cpu/attention_softmax.inl.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/transpose.inl.h"
#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

// The block's parts of the scratch memory.
struct Work {
  std::int64_t origin;  // position of the first key of the packed groups, a multiple of kGroupKeys
  float* packed;        // [groups][head_dim][kGroupKeys]
  float* scores;        // [kQueries][kBlockKeys] of the queries at work, by position - origin; then weights
  float* keep;          // [num_queries] factor of what was summed before
};

// Keys as columns, in groups of 16 positions. Positions outside of the block repeat a key of it: what is
// computed with them is hidden later.
void pack_keys(const AttentionTile& tile, const KeyBlock& block, const Work& work) {
  for (std::int64_t group = work.origin; group < block.end; group += kGroupKeys) {
    prefetch_rows(tile, block, group);
    const float* keys[kGroupKeys];
    for (std::int64_t i = 0; i < kGroupKeys; ++i)
      keys[i] = block.keys[HWY_MIN(HWY_MAX(group + i, block.begin), block.end - 1) - block.begin];
    transpose_rows(keys, tile.head_dim, work.packed + (group - work.origin) * tile.head_dim);
  }
}

// q . k of N queries with kVectors vectors of keys: one sum a key, over the head in order.
template <std::int64_t N>
HWY_INLINE void score_tile(const AttentionTile& tile, const Work& work, std::int64_t query,
                           std::int64_t offset) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* keys[kVectors];
  for (std::int64_t v = 0; v < kVectors; ++v) {
    const std::int64_t at = offset + v * lanes;
    keys[v] = work.packed + at / kGroupKeys * kGroupKeys * tile.head_dim + at % kGroupKeys;
  }
  const float* const q = tile.q + query * tile.head_dim;
  hn::Vec<D> acc[N][kVectors];
  for (auto& row : acc) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < tile.head_dim; ++k) {
    hn::Vec<D> key[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v) key[v] = hn::LoadU(d, keys[v] + k * kGroupKeys);
    for (std::int64_t n = 0; n < N; ++n) {
      const auto value = hn::Set(d, q[n * tile.head_dim + k]);
      for (std::int64_t v = 0; v < kVectors; ++v) acc[n][v] = hn::MulAdd(key[v], value, acc[n][v]);
    }
  }
  for (std::int64_t n = 0; n < N; ++n) {
    float* const scores = work.scores + n * kBlockKeys + offset;
    for (std::int64_t v = 0; v < kVectors; ++v) hn::StoreU(acc[n][v], d, scores + v * lanes);
  }
}

// Some keys more may be scored than anyone sees: nobody reads those.
template <std::int64_t N>
HWY_INLINE void score_queries(const AttentionTile& tile, const Work& work, std::int64_t query,
                              const Span& span) {
  const std::int64_t step = kVectors * static_cast<std::int64_t>(hn::Lanes(D()));
  for (std::int64_t at = (span.begin - work.origin) / step * step; at < span.end - work.origin; at += step)
    score_tile<N>(tile, work, query, at);
}

// out = out * keep + sum_i weight_i value_i, key by key, for V vectors of the head from `k` on.
template <std::int64_t N, std::int64_t V>
HWY_INLINE void value_tile(const AttentionTile& tile, const KeyBlock& block, const Work& work,
                           std::int64_t query, const Span& span, std::int64_t k) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const float* const weights = work.scores - work.origin;
  hn::Vec<D> acc[N][V];
  for (auto& row : acc) {
    for (auto& sum : row) sum = hn::Zero(d);
  }
  for (std::int64_t at = span.begin; at < span.end; ++at) {
    const float* const value = block.values[at - block.begin] + k;
    hn::Vec<D> part[V];
    for (std::int64_t v = 0; v < V; ++v) part[v] = hn::LoadU(d, value + v * lanes);
    for (std::int64_t n = 0; n < N; ++n) {
      const auto weight = hn::Set(d, weights[n * kBlockKeys + at]);
      for (std::int64_t v = 0; v < V; ++v) acc[n][v] = hn::MulAdd(part[v], weight, acc[n][v]);
    }
  }
  for (std::int64_t n = 0; n < N; ++n) {
    float* const out = tile.out + (query + n) * padded_head(tile.head_dim) + k;
    const auto keep = hn::Set(d, work.keep[query + n]);
    for (std::int64_t v = 0; v < V; ++v) {
      float* const to = out + v * lanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(d, to), keep, acc[n][v]), d, to);
    }
  }
}

// The columns behind the last whole vector of the head, in the same steps as value_tile.
void value_rest(const AttentionTile& tile, const KeyBlock& block, const Work& work, std::int64_t query,
                const Span& span, std::int64_t k) {
  const D d;
  const float* const weights = work.scores - work.origin;
  const std::int64_t count = tile.head_dim - k;
  auto acc = hn::Zero(d);
  for (std::int64_t at = span.begin; at < span.end; ++at)
    acc = hn::MulAdd(load_first(d, block.values[at - block.begin] + k, count), hn::Set(d, weights[at]), acc);
  float* const out = tile.out + query * padded_head(tile.head_dim) + k;
  const auto sum = hn::MulAdd(load_first(d, out, count), hn::Set(d, work.keep[query]), acc);
  store_first(d, sum, out, count);
}

template <std::int64_t N>
HWY_INLINE void value_queries(const AttentionTile& tile, const KeyBlock& block, const Work& work,
                              std::int64_t query, const Span& span) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  std::int64_t k = 0;
  for (; k + kVectors * lanes <= tile.head_dim; k += kVectors * lanes)
    value_tile<N, kVectors>(tile, block, work, query, span, k);
  for (; k + lanes <= tile.head_dim; k += lanes) value_tile<N, 1>(tile, block, work, query, span, k);
  if (k == tile.head_dim) return;
  Work one = work;  // of a single query
  for (std::int64_t n = 0; n < N; ++n, one.scores += kBlockKeys)
    value_rest(tile, block, one, query + n, span, k);
}

template <std::int64_t N>
HWY_INLINE void attend_queries(const AttentionTile& tile, const KeyBlock& block, const Work& work,
                               std::int64_t query) {
  const Span span = visible(tile, block, query, N);
  if (span.empty()) return;
  score_queries<N>(tile, work, query, span);
  for (std::int64_t n = 0; n < N; ++n) {
    float* const scores = work.scores + n * kBlockKeys;
    weigh(tile, block, {query + n, scores, work.keep + query + n}, span,
          [&](std::int64_t i, hn::Vec<D> weights) HWY_ATTR { hn::StoreU(weights, D(), scores + i); });
  }
  value_queries<N>(tile, block, work, query, span);
}

void Attend(const AttentionTile& tile, const KeyBlock& block) {
  float* const packed = tile.scratch;
  float* const scores = packed + kBlockKeys * tile.head_dim;
  const Work work = {origin_of(block), packed, scores, scores + kBlockKeys * kQueries};
  pack_keys(tile, block, work);
  std::int64_t query = 0;
  for (; query + kQueries <= tile.num_queries; query += kQueries)
    attend_queries<kQueries>(tile, block, work, query);
  for (; query + 2 <= tile.num_queries; query += 2) attend_queries<2>(tile, block, work, query);
  for (; query < tile.num_queries; ++query) attend_queries<1>(tile, block, work, query);
}

}  // namespace inkstone::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inkstone::cpu {

HWY_EXPORT(Attend);
void attend(const AttentionTile& tile, const KeyBlock& block) { HWY_DYNAMIC_DISPATCH(Attend)(tile, block); }

}  // namespace inkstone::cpu
#endif
