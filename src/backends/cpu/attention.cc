// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"

namespace inkstone::cpu {
namespace {

// Queries of a tile: enough to share the packing of the keys. They stream through the caches once per block
// of keys, which is little beside what is computed with them.
constexpr std::int64_t kTileQueries = 2048;

// Rows of keys and values of one sequence and key head, own and older.
class KeyRows {
 public:
  KeyRows(const ops::AttentionArgs& args, std::int64_t sequence, std::int64_t kv_head)
      : args_(args),
        sequence_(sequence),
        first_(args.rows.first_position.as<std::int32_t>()[sequence]),
        begin_(args.rows.row_begin.as<std::int32_t>()[sequence]),
        kv_head_(kv_head),
        head_dim_(args.q.shape[2]) {}

  // Fills pointers for positions [from, to).
  void fill(std::int64_t from, std::int64_t to, const float** keys, const float** values) const {
    const ops::StateRows& older = args_.older;
    const std::int64_t run = older.paged() ? ops::kPageTokens : older.ring_rows;
    const float* stored = nullptr;
    for (std::int64_t j = from; j < std::min(to, first_); ++j, ++keys, ++values) {
      // Positions of a page, or of a ring up to its end, lie one behind the other.
      stored = stored == nullptr || j % run == 0 ? row_of(j) : stored + older.storage.row_stride;
      *keys = stored + kv_head_ * 2 * head_dim_;
      *values = *keys + head_dim_;
    }
    for (std::int64_t j = std::max(from, first_); j < to; ++j, ++keys, ++values) {
      *keys = args_.k.row<float>(begin_ + j - first_) + kv_head_ * head_dim_;
      *values = args_.v.row<float>(begin_ + j - first_) + kv_head_ * head_dim_;
    }
  }

 private:
  [[nodiscard]] const float* row_of(std::int64_t position) const {
    const std::int64_t index = row_index(args_.older, sequence_, position);
    INK_CHECK(index >= 0, "a visible key has storage");
    return args_.older.storage.row<float>(index);
  }

  const ops::AttentionArgs& args_;
  std::int64_t sequence_;
  std::int64_t first_;
  std::int64_t begin_;
  std::int64_t kv_head_;
  std::int64_t head_dim_;
};

}  // namespace

// Queries of neighbouring rows that share one key head, laid out for the kernel, and their sums at zero.
AttentionTile CpuBackend::begin_tile(const ops::AttentionArgs& args, const RowTile& rows,
                                     std::int64_t kv_head, Scratch& scratch) const {
  const std::int64_t heads = args.q.shape[1] / args.k.shape[1];
  const std::int64_t head_dim = args.q.shape[2];
  const std::int64_t d_rel = args.rel.shape[2];
  const std::int64_t num_queries = rows.count * heads;
  const std::int64_t q_stride = rounds_ ? pair_floats(head_dim) : head_dim;
  // Whole cache lines first; what is read by single numbers last.
  const std::int64_t work = attention_scratch_floats(num_queries, head_dim);
  const std::int64_t outputs = num_queries * padded_head(head_dim);
  float* const block_work =
      grown(scratch.floats, work + outputs + num_queries * q_stride + head_dim + 2 * num_queries);
  float* const out = block_work + work;
  float* const q = out + outputs;
  float* const one_query = q + num_queries * q_stride;
  float* const largest = one_query + head_dim;
  float* const sum = largest + num_queries;
  std::fill(out, q, 0.0F);
  std::fill_n(largest, num_queries, kNoScore);
  std::fill_n(sum, num_queries, 0.0F);
  scratch.positions.resize(static_cast<std::size_t>(num_queries));
  scratch.pointers.resize(static_cast<std::size_t>(num_queries + 2 * kBlockKeys));
  const float** const rel = scratch.pointers.data();
  for (std::int64_t i = 0; i < num_queries; ++i) {
    const std::int64_t row = rows.row + i / heads;
    const std::int64_t head = kv_head * heads + i % heads;
    const float* const query = args.q.row<float>(row) + head * head_dim;
    float* const scaled = rounds_ ? one_query : q + i * q_stride;
    for (std::int64_t k = 0; k < head_dim; ++k) scaled[k] = query[k] * args.scale;
    if (rounds_) round_to_pairs(scaled, head_dim, q + i * q_stride);
    rel[i] = args.rel.row<float>(row) + head * d_rel;
    scratch.positions[static_cast<std::size_t>(i)] = args.rows.row_position.as<std::int32_t>()[row];
  }
  const std::int64_t extent = args.rel_proj.shape[1];
  return {.num_queries = num_queries,
          .head_dim = head_dim,
          .q = q,
          .position = scratch.positions.data(),
          .window = args.window,
          .rel = rel,
          .d_rel = d_rel,
          .relative = relative_.data() + kRelativePadding,
          .relative_stride = extent + 2 * kRelativePadding,
          .extent = extent,
          .out = out,
          .largest = largest,
          .sum = sum,
          .scratch = block_work};
}

void CpuBackend::attend_tile(const ops::AttentionArgs& args, const RowTile& rows, std::int64_t kv_head,
                             Scratch& scratch) const {
  const AttentionTile tile = begin_tile(args, rows, kv_head, scratch);
  const KeyRows key_rows(args, rows.sequence, kv_head);
  const std::int64_t end = scratch.positions.back() + 1;
  const float** const keys = scratch.pointers.data() + tile.num_queries;
  for (std::int64_t from = tile.first_key(0); from < end;) {
    const std::int64_t to = std::min(end, (from / kBlockKeys + 1) * kBlockKeys);
    key_rows.fill(from, to, keys, keys + kBlockKeys);
    (rounds_ ? attend_pairs : attend)(tile, {from, to, keys, keys + kBlockKeys});
    from = to;
  }
  const std::int64_t heads = tile.num_queries / rows.count;
  for (std::int64_t query = 0; query < tile.num_queries; ++query) {
    float* const to =
        args.out.row<float>(rows.row + query / heads) + (kv_head * heads + query % heads) * tile.head_dim;
    const float* const from = tile.out + query * padded_head(tile.head_dim);
    const float inverse = 1 / tile.sum[query];
    for (std::int64_t i = 0; i < tile.head_dim; ++i) to[i] = from[i] * inverse;
  }
}

// Columns reversed, so that they grow with the key, between zeros.
void CpuBackend::widen_relative(const TensorView& rel_proj) {
  const std::int64_t extent = rel_proj.shape[1];
  const std::int64_t stride = extent + 2 * kRelativePadding;
  float* row = grown(relative_, rel_proj.rows() * stride);
  for (std::int64_t m = 0; m < rel_proj.rows(); ++m, row += stride) {
    const auto* stored = rel_proj.row<BFloat16>(m);
    std::fill_n(row, kRelativePadding, 0.0F);
    for (std::int64_t e = 0; e < extent; ++e) row[kRelativePadding + extent - 1 - e] = to_float(stored[e]);
    std::fill_n(row + kRelativePadding + extent, kRelativePadding, 0.0F);
  }
}

void CpuBackend::attention(const ops::AttentionArgs& args, ops::Stream&) {
  check(args);
  INK_CHECK(args.q.type == ScalarType::kF32, "the CPU backend computes on f32 activations");
  widen_relative(args.rel_proj);
  const std::int64_t kv_heads = args.k.shape[1];
  const std::int64_t per_row = args.q.shape[1] / kv_heads;
  // Small tiles pack the keys more often. Whole heads even out where every thread has as many; else two tiles
  // a thread do.
  const int threads = pool_.num_threads();
  const std::int64_t even =
      kv_heads % threads == 0 ? args.q.rows() : args.q.rows() * kv_heads / (2 * threads);
  const std::int64_t count =
      std::clamp<std::int64_t>(even, 1, std::max<std::int64_t>(1, kTileQueries / per_row));
  const auto* row_begin = args.rows.row_begin.as<std::int32_t>();
  tiles_.clear();
  for (std::int64_t sequence = 0; sequence < args.rows.num_sequences(); ++sequence) {
    for (std::int64_t row = row_begin[sequence]; row < row_begin[sequence + 1]; row += count)
      tiles_.push_back({sequence, row, std::min<std::int64_t>(count, row_begin[sequence + 1] - row)});
  }
  const auto num_tiles = static_cast<std::int64_t>(tiles_.size());
  pool_.parallel_for_worker(num_tiles * kv_heads, 1, [&](int worker, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      attend_tile(args, tiles_[static_cast<std::size_t>(i / kv_heads)], i % kv_heads,
                  scratch_[static_cast<std::size_t>(worker)]);
  });
}

}  // namespace inkstone::cpu
