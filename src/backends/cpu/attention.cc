// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"

namespace inkstone::cpu {
namespace {

// Keys are taken in blocks that begin at multiples of this position, whatever the chunk: partial results are
// combined in the order of the blocks, so the bits of a row do not depend on how the work was spread.
constexpr std::int64_t kBlockKeys = 1024;

// Rows of keys and values of one sequence and key head, own and older.
class KeyRows {
 public:
  KeyRows(const ops::AttentionArgs& args, std::int64_t row, std::int64_t kv_head)
      : args_(args),
        sequence_(args.rows.row_sequence.as<std::int32_t>()[row]),
        first_(args.rows.first_position.as<std::int32_t>()[sequence_]),
        begin_(args.rows.row_begin.as<std::int32_t>()[sequence_]),
        kv_head_(kv_head),
        head_dim_(args.q.shape[2]) {}

  // Fills pointers for positions [from, to).
  void fill(std::int64_t from, std::int64_t to, const float** keys, const float** values) const {
    for (std::int64_t j = from; j < to; ++j, ++keys, ++values) {
      if (j >= first_) {
        *keys = args_.k.row<float>(begin_ + j - first_) + kv_head_ * head_dim_;
        *values = args_.v.row<float>(begin_ + j - first_) + kv_head_ * head_dim_;
        continue;
      }
      const std::int64_t index = row_index(args_.older, sequence_, j);
      INK_CHECK(index >= 0, "a visible key has storage");
      *keys = args_.older.storage.row<float>(index) + kv_head_ * 2 * head_dim_;
      *values = *keys + head_dim_;
    }
  }

 private:
  const ops::AttentionArgs& args_;
  std::int64_t sequence_;
  std::int64_t first_;
  std::int64_t begin_;
  std::int64_t kv_head_;
  std::int64_t head_dim_;
};

// Running result of the heads of one row: combined block by block.
struct Running {
  std::int64_t heads;
  std::int64_t head_dim;
  float* out;      // [heads, head_dim]
  float* largest;  // [heads]
  float* sum;      // [heads]

  void combine(const float* block_out, const float* block_largest, const float* block_sum, bool first) const {
    for (std::int64_t h = 0; h < heads; ++h) {
      float* mine = out + h * head_dim;
      const float* theirs = block_out + h * head_dim;
      if (first) {
        std::copy_n(theirs, head_dim, mine);
        largest[h] = block_largest[h];
        sum[h] = block_sum[h];
        continue;
      }
      const float top = std::max(largest[h], block_largest[h]);
      const float keep = std::exp(largest[h] - top);
      const float take = std::exp(block_largest[h] - top);
      for (std::int64_t d = 0; d < head_dim; ++d) mine[d] = mine[d] * keep + theirs[d] * take;
      sum[h] = sum[h] * keep + block_sum[h] * take;
      largest[h] = top;
    }
  }
};

}  // namespace

// All query heads that share one key head, for one row.
void CpuBackend::attend_row(const ops::AttentionArgs& args, std::int64_t row, std::int64_t kv_head,
                            Scratch& scratch) const {
  const std::int64_t heads = args.q.shape[1] / args.k.shape[1];
  const std::int64_t head_dim = args.q.shape[2];
  const std::int64_t d_rel = args.rel.shape[2];
  const std::int64_t extent = args.rel_proj.shape[1];
  const std::int64_t position = args.rows.row_position.as<std::int32_t>()[row];
  const std::int64_t first = args.window == 0 ? 0 : std::max<std::int64_t>(0, position - args.window + 1);
  const std::int64_t near = std::max(first, position - extent + 1);  // first key with a bias

  const std::int64_t vectors = heads * head_dim;
  const std::int64_t bias_size = heads * extent;
  float* memory = grown(scratch.floats, 3 * vectors + bias_size + heads * (kBlockKeys + 4));
  float* q = memory;
  float* block_out = q + vectors;
  const Running running{heads, head_dim, block_out + vectors, block_out + 2 * vectors,
                        block_out + 2 * vectors + heads};
  float* block_largest = running.sum + heads;
  float* block_sum = block_largest + heads;
  float* bias = block_sum + heads;
  float* scores = bias + bias_size;
  scratch.pointers.resize(2 * kBlockKeys);

  const float* query = args.q.row<float>(row) + kv_head * vectors;
  for (std::int64_t i = 0; i < vectors; ++i) q[i] = query[i] * args.scale;
  // bias[h][j - near]: distances fall as keys rise, so the projection's columns are read backwards.
  const std::int64_t num_near = position - near + 1;
  for (std::int64_t h = 0; h < heads; ++h) {
    const float* rel = args.rel.row<float>(row) + (kv_head * heads + h) * d_rel;
    float* line = bias + h * extent;
    std::fill_n(line, num_near, 0.0F);
    for (std::int64_t m = 0; m < d_rel; ++m) {
      add_scaled(relative_.data() + (m + 1) * extent - num_near, rel[m], num_near, line);
    }
  }

  const KeyRows rows(args, row, kv_head);
  for (std::int64_t from = first; from <= position;) {
    const std::int64_t to = std::min(position + 1, (from / kBlockKeys + 1) * kBlockKeys);
    const float** keys = scratch.pointers.data();
    rows.fill(from, to, keys, keys + kBlockKeys);
    const std::int64_t bias_begin = std::clamp(near - from, std::int64_t{0}, to - from);
    // bias index of key i of the block is from + i - near.
    attend({q, heads, head_dim, keys, keys + kBlockKeys, to - from, bias + (from - near), extent, bias_begin,
            scores, block_out, block_largest, block_sum});
    running.combine(block_out, block_largest, block_sum, from == first);
    from = to;
  }
  float* out = args.out.row<float>(row) + kv_head * vectors;
  for (std::int64_t i = 0; i < vectors; ++i) out[i] = running.out[i] / running.sum[i / head_dim];
}

void CpuBackend::attention(const ops::AttentionArgs& args, ops::Stream&) {
  check(args);
  INK_CHECK(args.q.type == ScalarType::kF32, "the CPU backend computes on f32 activations");
  // Columns reversed: rel_proj[m][distance] stands at the column that grows with the key.
  const std::int64_t extent = args.rel_proj.shape[1];
  grown(relative_, args.rel_proj.shape.num_elements());
  for (std::int64_t m = 0; m < args.rel_proj.rows(); ++m) {
    const auto* row = args.rel_proj.row<BFloat16>(m);
    for (std::int64_t e = 0; e < extent; ++e) {
      relative_[static_cast<std::size_t>(m * extent + extent - 1 - e)] = to_float(row[e]);
    }
  }
  const std::int64_t kv_heads = args.k.shape[1];
  pool_.parallel_for_worker(
      args.q.rows() * kv_heads, 1, [&](int worker, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if (args.rows.row_sequence.as<std::int32_t>()[i / kv_heads] < 0) continue;
          attend_row(args, i / kv_heads, i % kv_heads, scratch_[static_cast<std::size_t>(worker)]);
        }
      });
}

}  // namespace inkstone::cpu
