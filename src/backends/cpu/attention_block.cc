// SPDX-License-Identifier: Apache-2.0
// Scores, softmax and weighted values of one block of keys for a tile of queries: compiled once per
// instruction set, see kernels.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention_block.cc"
#include <hwy/foreach_target.h>

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>

#include "backends/cpu/kernels.h"
#include "backends/cpu/weight_loaders.inl.h"

HWY_BEFORE_NAMESPACE();
namespace inkstone::cpu::HWY_NAMESPACE {

// Queries, and vectors of keys or of a head, whose sums are in registers together.
constexpr std::int64_t kQueries = 4;
constexpr std::int64_t kVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// The block's parts of the scratch memory.
struct Work {
  std::int64_t origin;  // position of the first key of the packed groups, a multiple of kGroupKeys
  float* packed;        // [groups][head_dim][kGroupKeys]
  float* scores;        // [kQueries][kBlockKeys] of the queries at work, by position - origin; then weights
  float* keep;          // [num_queries] factor of what was summed before
  float* take;          // [num_queries] factor of this block
};

// Positions that some query of a range sees in the block, and from where to where its vectors reach.
struct Span {
  std::int64_t begin;
  std::int64_t end;
  [[nodiscard]] bool empty() const { return begin >= end; }
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

// Four keys, four numbers of each, as columns.
HWY_INLINE void pack_square(const float* const* keys, std::int64_t d, float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t j = 0; j < 4; ++j) {
    for (std::int64_t i = 0; i < 4; ++i) to[j * kGroupKeys + i] = keys[i][d + j];
  }
#else
  const hn::FixedTag<float, 4> four;
  const hn::FixedTag<double, 2> two;
  const auto pair = [&](std::int64_t i, bool upper) {
    const auto a = hn::LoadU(four, keys[i] + d);
    const auto b = hn::LoadU(four, keys[i + 1] + d);
    return hn::BitCast(two, upper ? hn::InterleaveUpper(four, a, b) : hn::InterleaveLower(four, a, b));
  };
  for (const bool upper : {false, true}) {
    const auto a = pair(0, upper);
    const auto b = pair(2, upper);
    float* const out = to + (upper ? 2 * kGroupKeys : 0);
    hn::StoreU(hn::BitCast(four, hn::InterleaveLower(two, a, b)), four, out);
    hn::StoreU(hn::BitCast(four, hn::InterleaveUpper(two, a, b)), four, out + kGroupKeys);
  }
#endif
}

// Keys as columns, in groups of 16 positions. Positions outside of the block repeat a key of it: what is
// computed with them is hidden later.
void pack_keys(const AttentionTile& tile, const KeyBlock& block, const Work& work) {
  for (std::int64_t group = work.origin; group < block.end; group += kGroupKeys) {
    float* const to = work.packed + (group - work.origin) * tile.head_dim;
    const float* keys[kGroupKeys];
    for (std::int64_t i = 0; i < kGroupKeys; ++i)
      keys[i] = block.keys[HWY_MIN(HWY_MAX(group + i, block.begin), block.end - 1) - block.begin];
    std::int64_t d = 0;
    for (; d + 4 <= tile.head_dim; d += 4) {
      for (std::int64_t i = 0; i < kGroupKeys; i += 4) pack_square(keys + i, d, to + d * kGroupKeys + i);
    }
    for (; d < tile.head_dim; ++d) {
      for (std::int64_t i = 0; i < kGroupKeys; ++i) to[d * kGroupKeys + i] = keys[i][d];
    }
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

// scores become exp(score - largest); returns their sum.
HWY_INLINE float exponentials(float* scores, std::int64_t count, float largest) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, largest);
  auto total = hn::Zero(d);
  for (std::int64_t i = 0; i < count; i += lanes) {
    const auto value = hn::Exp(d, hn::Sub(hn::LoadU(d, scores + i), shift));
    hn::StoreU(value, d, scores + i);
    total = hn::Add(total, value);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// Weights of one query for the positions of `span`, which other queries may see; zero where this one sees
// nothing.
void weigh(const AttentionTile& tile, const KeyBlock& block, const Work& work, std::int64_t query,
           const Span& span, float* scores) {
  const Span shown = visible(tile, block, query);
  work.keep[query] = 1;
  work.take[query] = 0;
  if (shown.empty()) {
    for (std::int64_t at = span.begin; at < span.end; ++at) scores[at - work.origin] = 0;
    return;
  }
  // Whole groups of positions, so that a lane always means the same ones.
  const Span vectors = {span.begin / kGroupKeys * kGroupKeys,
                        (span.end + kGroupKeys - 1) / kGroupKeys * kGroupKeys};
  float* const from = scores + vectors.begin - work.origin;
  add_relative(tile, query, vectors, from);
  hide(shown, vectors, from);
  const float largest = largest_of(from, vectors.end - vectors.begin);
  const float sum = exponentials(from, vectors.end - vectors.begin, largest);
  const float top = HWY_MAX(tile.largest[query], largest);
  work.keep[query] = std::exp(tile.largest[query] - top);
  work.take[query] = std::exp(largest - top);
  tile.sum[query] = tile.sum[query] * work.keep[query] + sum * work.take[query];
  tile.largest[query] = top;
}

// out = out * keep + sum_i weight_i value_i * take, key by key, for V vectors of the head from `k` on.
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
    float* const out = tile.out + (query + n) * tile.head_dim + k;
    const auto keep = hn::Set(d, work.keep[query + n]);
    const auto take = hn::Set(d, work.take[query + n]);
    for (std::int64_t v = 0; v < V; ++v) {
      float* const to = out + v * lanes;
      hn::StoreU(hn::MulAdd(acc[n][v], take, hn::Mul(hn::LoadU(d, to), keep)), d, to);
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
  float* const out = tile.out + query * tile.head_dim + k;
  const auto kept = hn::Mul(load_first(d, out, count), hn::Set(d, work.keep[query]));
  store_first(d, hn::MulAdd(acc, hn::Set(d, work.take[query]), kept), out, count);
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
  for (std::int64_t n = 0; n < N; ++n)
    weigh(tile, block, work, query + n, span, work.scores + n * kBlockKeys);
  value_queries<N>(tile, block, work, query, span);
}

void Attend(const AttentionTile& tile, const KeyBlock& block) {
  float* const packed = tile.scratch;
  float* const scores = packed + kBlockKeys * tile.head_dim;
  float* const keep = scores + kBlockKeys * kQueries;
  const Work work = {block.begin / kGroupKeys * kGroupKeys, packed, scores, keep, keep + tile.num_queries};
  pack_keys(tile, block, work);
  std::int64_t query = 0;
  for (; query + kQueries <= tile.num_queries; query += kQueries)
    attend_queries<kQueries>(tile, block, work, query);
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
