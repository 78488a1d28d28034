// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backends/host/rows.h"
#include "backends/reference/dot.h"
#include "backends/reference/reference_backend.h"

namespace inkstone::reference {

using host::load_row;
using host::scalar;
using host::store_row;
namespace {

// One query row and head, and the keys it sees.
class Query {
 public:
  Query(const ops::AttentionArgs& args, std::int64_t row, std::int64_t head)
      : args_(args),
        sequence_(args.rows.row_sequence.as<std::int32_t>()[row]),
        position_(args.rows.row_position.as<std::int32_t>()[row]),
        kv_head_(head / (args.q.shape[1] / args.k.shape[1])),
        head_dim_(args.q.shape[2]) {}

  [[nodiscard]] std::int64_t first_key() const {
    return args_.window == 0 ? 0 : std::max<std::int64_t>(0, position_ - args_.window + 1);
  }
  [[nodiscard]] std::int64_t position() const { return position_; }

  // Key (which 0) or value (which 1) of position j, widened.
  void load(std::int64_t j, int which, std::span<float> out) const {
    const std::int64_t first = args_.rows.first_position.as<std::int32_t>()[sequence_];
    if (j >= first) {
      const std::int64_t row = args_.rows.row_begin.as<std::int32_t>()[sequence_] + j - first;
      const TensorView& own = which == 0 ? args_.k : args_.v;
      load_row(head_slice(own, row, kv_head_ * head_dim_), 0, out);
      return;
    }
    const std::int64_t row = row_index(args_.older, sequence_, j);
    INK_CHECK(row >= 0, "a visible key has storage");
    load_row(head_slice(args_.older.storage, row, (kv_head_ * 2 + which) * head_dim_), 0, out);
  }

 private:
  // One head's numbers in one row, as a [1, D] view.
  [[nodiscard]] TensorView head_slice(const TensorView& view, std::int64_t row, std::int64_t offset) const {
    return {view.data + (row * view.row_stride + offset) * size_bytes(view.type), view.type, {1, head_dim_}};
  }

  const ops::AttentionArgs& args_;
  std::int64_t sequence_;
  std::int64_t position_;
  std::int64_t kv_head_;
  std::int64_t head_dim_;
};

// bias[e] = sum_m rel[m] * proj[m][e] for the distances that this query sees. It goes no further than to the
// scores, which are f32, and is not rounded.
std::vector<float> relative_logits(const ops::AttentionArgs& args, std::span<const float> rel,
                                   const std::vector<float>& proj, std::int64_t distances) {
  const std::int64_t extent = args.rel_proj.shape[1];
  std::vector<float> bias(static_cast<std::size_t>(std::min(distances, extent)), 0.0F);
  for (std::size_t m = 0; m < rel.size(); ++m) {
    const float* row = proj.data() + static_cast<std::int64_t>(m) * extent;
    for (std::size_t e = 0; e < bias.size(); ++e) bias[e] += rel[m] * row[e];
  }
  return bias;
}

// Softmax in place; returns nothing of the sum since the weights are normalised.
void softmax(std::vector<float>& scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  for (float& score : scores) score = std::exp(score - largest);
  const auto size = static_cast<std::int64_t>(scores.size());
  const float sum = LaneSum::sum(size, [&](std::int64_t i) { return scores[static_cast<std::size_t>(i)]; });
  for (float& score : scores) score /= sum;
}

void attend(const ops::AttentionArgs& args, const std::vector<float>& proj, std::int64_t row,
            std::int64_t head) {
  const Query query(args, row, head);
  const std::int64_t head_dim = args.q.shape[2];
  const std::int64_t first = query.first_key();
  const std::int64_t num_keys = query.position() - first + 1;
  std::vector<float> q(static_cast<std::size_t>(args.q.row_elements()));
  std::vector<float> rel(static_cast<std::size_t>(args.rel.row_elements()));
  load_row(args.q, row, q);
  load_row(args.rel, row, rel);
  const std::int64_t d_rel = args.rel.shape[2];
  const std::vector<float> bias = relative_logits(
      args, std::span(rel).subspan(static_cast<std::size_t>(head * d_rel), static_cast<std::size_t>(d_rel)),
      proj, num_keys);

  std::vector<float> vector(static_cast<std::size_t>(head_dim));
  std::vector<float> scores(static_cast<std::size_t>(num_keys));
  for (std::int64_t i = 0; i < num_keys; ++i) {
    query.load(first + i, 0, vector);
    const auto distance = static_cast<std::size_t>(num_keys - 1 - i);
    const float score = args.scale * dot(q.data() + head * head_dim, vector.data(), head_dim);
    scores[static_cast<std::size_t>(i)] = distance < bias.size() ? score + bias[distance] : score;
  }
  softmax(scores);
  std::vector<float> out(static_cast<std::size_t>(head_dim), 0.0F);
  for (std::int64_t i = 0; i < num_keys; ++i) {
    query.load(first + i, 1, vector);
    const float weight = scores[static_cast<std::size_t>(i)];
    for (std::size_t d = 0; d < out.size(); ++d) out[d] += weight * vector[d];
  }
  const TensorView flat = args.out.reshaped({args.out.rows(), args.out.row_elements()});
  store_row(flat.columns_at(head * head_dim, head_dim), row, out);
}

}  // namespace

void ReferenceBackend::attention(const ops::AttentionArgs& args, ops::Stream&) {
  check(args);
  std::vector<float> proj(static_cast<std::size_t>(args.rel_proj.shape.num_elements()));
  load_row(args.rel_proj.reshaped({1, args.rel_proj.shape.num_elements()}), 0, proj);
  const std::int64_t heads = args.q.shape[1];
  pool_.parallel_for(args.q.rows() * heads, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (args.rows.row_sequence.as<std::int32_t>()[i / heads] >= 0) attend(args, proj, i / heads, i % heads);
    }
  });
}

}  // namespace inkstone::reference
