// SPDX-License-Identifier: Apache-2.0
#include "model/block.h"

#include <optional>

namespace inkstone::model {
namespace {

TensorView take(const StepContext& step, std::int64_t columns) {
  return step.workspace.take(step.backend.activation_type(), {step.rows.num_rows(), columns});
}

ops::RmsNormArgs norm(const StepContext& step, const TensorView& x, const TensorView& weight,
                      const TensorView& out) {
  return {x, weight, out, static_cast<float>(step.config.rms_norm_eps)};
}

void linear(const StepContext& step, const TensorView& x, const MatrixBank& weight, const TensorView& out,
            const TensorView& out_scale = {}) {
  step.backend.linear(
      {.x = x, .weights = {&weight, 1}, .out = out, .out_scale = out_scale, .step_rows = step.step_rows},
      step.stream);
}

// A short convolution over one of the block's four streams.
ops::ShortConvArgs conv(const StepContext& step, const TensorView& x, const TensorView& weight,
                        std::size_t group, const TensorView& out) {
  return {x, weight, step.rows, step.cache.rows(group, {x.shape[1]}), out};
}

// Columns of the fused projection: queries, keys, values and relative features side by side.
struct Projections {
  TensorView q, k, v, r;
};

Projections project(const StepContext& step, const AttentionWeights& weights, const TensorView& x) {
  std::int64_t columns = 0;
  for (const MatrixBank& part : weights.qkvr) columns += part.rows;
  const TensorView all = take(step, columns);
  step.backend.linear({.x = x, .weights = weights.qkvr, .out = all, .step_rows = step.step_rows},
                      step.stream);
  std::array<TensorView, 4> parts;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = all.columns_at(begin, weights.qkvr[i].rows);
    begin += weights.qkvr[i].rows;
  }
  return {parts[0], parts[1], parts[2], parts[3]};
}

// tau on queries and relative features of global layers (`model.md` 5.4); applied to the features instead of
// the logits, which are linear in them.
std::optional<ops::LogScaleArgs> length_scale(const StepContext& step,
                                              const checkpoint::AttentionShape& shape, const TensorView& x) {
  if (shape.window != 0 || !step.config.log_scaling_floor) return std::nullopt;
  return ops::LogScaleArgs{x, step.rows.row_position, static_cast<float>(*step.config.log_scaling_floor),
                           static_cast<float>(step.config.log_scaling_alpha)};
}

// A ring takes the batch's keys before its attention only while they replace none that it reads.
bool stores_early(const StepContext& step, const ops::StateRows& state, std::int64_t window) {
  return state.paged() || step.rows.max_sequence_rows <= state.ring_rows - window;
}

// Attention over the normed input x [T, M]; the result before its convolution goes to out [T, M].
void attend(const StepContext& step, const BlockWeights& block, std::int64_t index, const TensorView& x,
            const TensorView& out) {
  const AttentionWeights& weights = block.attention;
  const checkpoint::AttentionShape& shape = block.shape;
  const std::int64_t num_rows = step.rows.num_rows();
  const Projections parts = project(step, weights, x);
  const TensorView k_flat = take(step, shape.kv_heads * shape.head_dim);
  const TensorView v_flat = take(step, shape.kv_heads * shape.head_dim);
  const TensorView q = parts.q.reshaped({num_rows, shape.query_heads, shape.head_dim});
  const TensorView k = k_flat.reshaped({num_rows, shape.kv_heads, shape.head_dim});
  const TensorView v = v_flat.reshaped({num_rows, shape.kv_heads, shape.head_dim});
  const TensorView rel = parts.r.reshaped({num_rows, shape.query_heads, step.config.d_rel});
  const ops::StateRows state =
      step.cache.rows(group_index(index, BlockState::kKv), {shape.kv_heads, 2, shape.head_dim});
  const ops::StoreKvArgs store{k, v, step.rows, state};
  const bool early = stores_early(step, state, shape.window);
  step.backend.prepare_heads(
      {.k_conv = conv(step, parts.k, weights.k_conv, group_index(index, BlockState::kKConv), k_flat),
       .v_conv = conv(step, parts.v, weights.v_conv, group_index(index, BlockState::kVConv), v_flat),
       .q_norm = norm(step, q, weights.q_norm, q),
       .k_norm = norm(step, k, weights.k_norm, k),
       .q_scale = length_scale(step, shape, parts.q),
       .rel_scale = length_scale(step, shape, parts.r),
       .store = early ? std::optional(store) : std::nullopt},
      step.stream);

  const TensorView mixed = take(step, shape.query_heads * shape.head_dim);
  step.backend.attention({.q = q,
                          .k = k,
                          .v = v,
                          .rel = rel,
                          .rel_proj = weights.rel_proj,
                          .rows = step.rows,
                          .older = state,
                          .out = mixed.reshaped({num_rows, shape.query_heads, shape.head_dim}),
                          .scale = 1.0F / static_cast<float>(shape.head_dim),
                          .window = shape.window,
                          .step_rows = step.step_rows},
                         step.stream);
  if (!early) step.backend.store_kv(store, step.stream);
  linear(step, mixed, weights.out, out);
}

void dense_mlp(const StepContext& step, const DenseWeights& weights, const TensorView& x,
               const TensorView& out) {
  const TensorView hidden = take(step, weights.w2.columns);
  step.backend.gated_linear({x, weights.w13, hidden, step.step_rows}, step.stream);
  linear(step, hidden, weights.w2, out, weights.global_scale);
}

void moe_mlp(const StepContext& step, const MoeWeights& weights, const NormedInput& normed,
             const TensorView& out) {
  const TensorView& x = normed.rows;
  const std::int64_t num_rows = step.rows.num_rows();
  const std::int64_t chosen = step.config.chosen_experts;
  const std::int64_t slots = chosen + step.config.shared_experts;
  const TensorView logits = step.workspace.take(ScalarType::kF32, {num_rows, weights.gate.rows});
  const TensorView experts = step.workspace.take(ScalarType::kI32, {num_rows, chosen});
  const TensorView expert_weights = step.workspace.take(ScalarType::kF32, {num_rows, slots});
  const TensorView hidden =
      step.workspace.take(step.backend.activation_type(), {num_rows, slots, step.config.expert_width});
  step.backend.mixture(
      {.gate = {.x = x,
                .weights = {&weights.gate, 1},
                .out = logits,
                .step_rows = step.step_rows,
                .keep_input = true,
                .x_rest = normed.rest},
       .route = {logits, weights.bias, weights.global_scale, static_cast<float>(step.config.route_scale),
                 experts, expert_weights, step.rows.row_sequence},
       .moe = {.x = x,
               .experts = experts,
               .weights = expert_weights,
               .routed_w13 = weights.routed_w13,
               .routed_w2 = weights.routed_w2,
               .shared_w13 = weights.shared_w13,
               .shared_w2 = weights.shared_w2,
               .hidden = hidden,
               .out = out,
               .step_rows = step.step_rows,
               .nvfp4_activations = step.nvfp4_activations}},
      step.stream);
}

}  // namespace

void run_block(const StepContext& step, const BlockWeights& weights, std::int64_t index, const TensorView& x,
               const NormedInput& normed) {
  const std::int64_t mark = step.workspace.mark();
  const TensorView branch = take(step, x.shape[1]);
  const TensorView convolved = step.workspace.take(x.type, x.shape);
  const ops::AddArgs sum{x, convolved, x};

  ops::RmsNormArgs mlp_norm = norm(step, x, weights.mlp_norm, normed.rows);
  if (!weights.dense) mlp_norm.rest = normed.rest;

  attend(step, weights, index, normed.rows, branch);
  step.backend.end_branch({.conv = conv(step, branch, weights.attn_conv,
                                        group_index(index, BlockState::kAttentionConv), convolved),
                           .add = sum,
                           .norm = mlp_norm},
                          step.stream);

  if (weights.dense) {
    dense_mlp(step, *weights.dense, normed.rows, branch);
  } else {
    moe_mlp(step, *weights.moe, normed, branch);
  }
  const ops::ShortConvArgs mlp_conv =
      conv(step, branch, weights.mlp_conv, group_index(index, BlockState::kMlpConv), convolved);
  if (normed.next_norm.empty()) {
    step.backend.short_conv(mlp_conv, step.stream);
    step.backend.add(sum, step.stream);
  } else {
    step.backend.end_branch(
        {.conv = mlp_conv, .add = sum, .norm = norm(step, x, normed.next_norm, normed.rows)}, step.stream);
  }
  step.workspace.rewind(mark);
}

void measure_block(const checkpoint::ModelConfig& config, ScalarType type, std::int64_t num_rows,
                   Workspace& workspace) {
  workspace.take(type, {num_rows, config.width});
  workspace.take(ScalarType::kF32, {num_rows, config.width});
  for (const checkpoint::AttentionShape* shape : {&config.sliding, &config.global}) {
    const std::int64_t query_width = shape->query_heads * shape->head_dim;
    const std::int64_t kv_width = shape->kv_heads * shape->head_dim;
    workspace.take(type, {num_rows, query_width + 2 * kv_width + shape->query_heads * config.d_rel});
    for (int i = 0; i < 2; ++i) workspace.take(type, {num_rows, kv_width});
    workspace.take(type, {num_rows, query_width});
  }
  workspace.take(type, {num_rows, config.dense_width});
  const std::int64_t slots = config.chosen_experts + config.shared_experts;
  workspace.take(ScalarType::kF32, {num_rows, config.routed_experts + config.shared_experts});
  workspace.take(ScalarType::kI32, {num_rows, config.chosen_experts});
  workspace.take(ScalarType::kF32, {num_rows, slots});
  workspace.take(type, {num_rows, slots, config.expert_width});
}

}  // namespace inkstone::model
