// SPDX-License-Identifier: Apache-2.0
// Operations made of others against their parts on the same backend, bit for bit.
#include <cmath>

#include "tests/conformance/sequences.h"

namespace inkstone::conformance {
namespace {

constexpr std::int64_t kTaps = 4;
constexpr std::int64_t kConvRing = 16;
constexpr float kEps = 1e-6F;

using Results = std::vector<HostTensor>;

void expect_same(const Results& fused, const Results& parts, const std::string& what) {
  ASSERT_EQ(fused.size(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    EXPECT_TRUE(same_bits(fused[i], parts[i])) << what << ", result " << i;
}

// Steps: single rows, verify rows, sequences that begin, padding; and what is too long for the state beside.
const std::vector<std::vector<Span>>& batches() {
  static const std::vector<std::vector<Span>> all = {
      {{0, 1}},    {{8192, 1}},        {{1, 2}, {700, 1}, {0, 3}}, {{100, 9}, {7, 13}},
      {{513, 16}}, {{0, 40}, {33, 17}}};
  return all;
}

HostState conv_state(Random& random, ScalarType type, const std::vector<Span>& spans, std::int64_t channels) {
  HostState state(random, type, static_cast<std::int64_t>(spans.size()), 0, kConvRing, {channels});
  for (std::size_t s = 0; s < spans.size(); ++s)
    state.fill(random, static_cast<std::int64_t>(s), spans[s].first - (kTaps - 1), spans[s].first, 1);
  return state;
}

// Backends on the host run the parts themselves: there is nothing to compare, and one case shows that.
bool is_enough(const std::string& backend) { return backend != "cuda"; }

class EndBranch : public Conformance {};
INK_CONFORMANCE(EndBranch);

struct Branch {
  HostRows rows;
  HostTensor x, residual, conv_weight, norm_weight;
  HostState state;

  // `stream`: number type of the residual stream.
  Branch(Random& random, ScalarType type, ScalarType stream, const std::vector<Span>& spans,
         std::int64_t width)
      : rows(spans, 2), state(conv_state(random, type, spans, width)) {
    const std::int64_t total = rows.row_sequence.size();
    x = random.tensor(type, {total, width});
    residual = random.tensor(stream, {total, width}, 3);
    conv_weight = random.tensor(ScalarType::kBF16, {width, kTaps}, 0.3F);
    norm_weight = random.tensor(ScalarType::kBF16, {width});
  }
};

Results run(Side& side, Branch& branch, bool fused) {
  HostTensor poison(branch.x.type, branch.x.shape);
  HostTensor convolved(branch.residual.type, branch.x.shape);
  const TensorView residual = side.put(branch.residual);
  ops::EndBranchArgs args;
  args.conv = {side.put(branch.x), side.put(branch.conv_weight), branch.rows.put(side),
               branch.state.put(side), side.put(convolved)};
  args.add = {residual, args.conv.out, residual};
  args.norm = {residual, side.put(branch.norm_weight), side.put(poison), kEps};
  if (branch.residual.type != branch.x.type) args.norm.rest = side.put(poison);
  if (fused) {
    side.backend().end_branch(args, side.stream());
  } else {
    side.backend().ops::Backend::end_branch(args, side.stream());
  }
  Results results{side.get(residual), side.get(args.norm.out), side.get(args.conv.state.storage)};
  if (!args.norm.rest.empty()) results.push_back(side.get(args.norm.rest));
  return results;
}

TEST_P(EndBranch, GivesTheBitsOfItsParts) {
  Random random(1);
  for (const ScalarType stream : {ScalarType::kF32, activation()}) {
    for (const std::int64_t width : {64, 1024, 1032, 6144, 8192}) {
      for (const std::vector<Span>& spans : batches()) {
        Branch branch(random, activation(), stream, spans, width);
        expect_same(run(subject(), branch, true), run(subject(), branch, false),
                    "width " + std::to_string(width) + ", first " + std::to_string(spans[0].first));
        subject().forget();
        if (is_enough(GetParam())) return;
      }
    }
  }
}

class PrepareHeads : public Conformance {};
INK_CONFORMANCE(PrepareHeads);

struct Kind {
  std::int64_t heads, kv_heads, window;
  bool scaled;
};

struct Heads {
  static constexpr std::int64_t kHead = 128;
  static constexpr std::int64_t kFeatures = 16;
  Kind kind;
  HostRows rows;
  HostTensor q, k, v, rel, k_conv, v_conv, q_norm, k_norm;
  HostState k_state, v_state, kv_state;
  bool stores;

  Heads(Random& random, ScalarType type, const std::vector<Span>& spans, const Kind& geometry)
      : kind(geometry),
        rows(spans, 2),
        k_state(conv_state(random, type, spans, geometry.kv_heads * kHead)),
        v_state(conv_state(random, type, spans, geometry.kv_heads * kHead)),
        kv_state(random, type, static_cast<std::int64_t>(spans.size()), longest(spans),
                 geometry.window > 0 ? geometry.window + 64 : 0, {geometry.kv_heads, 2, kHead}) {
    const std::int64_t total = rows.row_sequence.size();
    q = random.tensor(type, {total, kind.heads, kHead}, 2);
    k = random.tensor(type, {total, kind.kv_heads * kHead}, 2);
    v = random.tensor(type, {total, kind.kv_heads * kHead});
    rel = random.tensor(type, {total, kind.heads * kFeatures});
    k_conv = random.tensor(ScalarType::kBF16, {kind.kv_heads * kHead, kTaps}, 0.3F);
    v_conv = random.tensor(ScalarType::kBF16, {kind.kv_heads * kHead, kTaps}, 0.3F);
    q_norm = random.tensor(ScalarType::kBF16, {kHead});
    k_norm = random.tensor(ScalarType::kBF16, {kHead});
    stores = kind.window == 0 || rows.max_sequence_rows <= 64;
  }
  static std::int64_t longest(const std::vector<Span>& spans) {
    std::int64_t most = 0;
    for (const Span& span : spans) most = std::max(most, span.first + span.rows);
    return most;
  }
};

// Queries side by side in one view of all heads, as the fused projection leaves them.
TensorView flat(const TensorView& heads) {
  return heads.reshaped({heads.shape[0], heads.shape[1] * heads.shape[2]});
}

Results run(Side& side, Heads& p, bool fused) {
  HostTensor poison(p.k.type, p.k.shape);
  const std::int64_t total = p.q.shape[0];
  const TensorView q = side.put(p.q);
  const TensorView rel = side.put(p.rel);
  ops::PrepareHeadsArgs args;
  args.k_conv = {side.put(p.k), side.put(p.k_conv), p.rows.put(side), p.k_state.put(side), side.put(poison)};
  args.v_conv = {side.put(p.v), side.put(p.v_conv), args.k_conv.rows, p.v_state.put(side), side.put(poison)};
  const TensorView k = args.k_conv.out.reshaped({total, p.kind.kv_heads, Heads::kHead});
  const TensorView v = args.v_conv.out.reshaped({total, p.kind.kv_heads, Heads::kHead});
  args.q_norm = {q, side.put(p.q_norm), q, kEps};
  args.k_norm = {k, side.put(p.k_norm), k, kEps};
  const TensorView position = args.k_conv.rows.row_position;
  if (p.kind.scaled) {
    args.q_scale = ops::LogScaleArgs{flat(q), position, 64, 0.1F};
    args.rel_scale = ops::LogScaleArgs{rel, position, 64, 0.1F};
  }
  const ops::StateRows state = p.kv_state.put(side);
  if (p.stores) args.store = ops::StoreKvArgs{k, v, args.k_conv.rows, state};
  if (fused) {
    side.backend().prepare_heads(args, side.stream());
  } else {
    side.backend().ops::Backend::prepare_heads(args, side.stream());
  }
  return {side.get(q),
          side.get(k),
          side.get(v),
          side.get(rel),
          side.get(args.k_conv.state.storage),
          side.get(args.v_conv.state.storage),
          side.get(state.storage)};
}

TEST_P(PrepareHeads, GivesTheBitsOfItsParts) {
  Random random(2);
  for (const Kind& kind : {Kind{8, 1, 0, true}, Kind{8, 2, 512, false}, Kind{4, 2, 0, true},
                           Kind{4, 4, 128, false}, Kind{64, 8, 0, true}, Kind{3, 1, 512, true}}) {
    for (const std::vector<Span>& spans : batches()) {
      Heads heads(random, activation(), spans, kind);
      expect_same(run(subject(), heads, true), run(subject(), heads, false),
                  std::to_string(kind.heads) + " heads, first " + std::to_string(spans[0].first));
      subject().forget();
      if (is_enough(GetParam())) return;
    }
  }
}

class Mixture : public Conformance {};
INK_CONFORMANCE(Mixture);

struct Sizes {
  std::int64_t rows, width, hidden, experts, chosen;
  bool quantised, w4a4 = false;
  bool with_rest = false;  // of the router's input
};

struct MixtureProblem {
  static constexpr std::int64_t kShared = 2;
  Sizes sizes;
  HostBank gate, routed_w13, routed_w2, shared_w13, shared_w2;
  HostTensor x, rest, bias, scale, row_sequence;

  MixtureProblem(Random& random, ScalarType type, const Sizes& asked) : sizes(asked) {
    const float in = 1 / std::sqrt(static_cast<float>(sizes.width));
    const float out = 1 / std::sqrt(static_cast<float>(sizes.hidden));
    const auto bank = [&](std::int64_t rows, std::int64_t columns, float deviation) {
      return sizes.quantised ? random.nvfp4_bank(sizes.experts, rows, columns, deviation)
                             : random.bf16_bank(sizes.experts, rows, columns, deviation);
    };
    gate = random.bf16_bank(1, sizes.experts + kShared, sizes.width, 3 * in);
    routed_w13 = bank(2 * sizes.hidden, sizes.width, in);
    routed_w2 = bank(sizes.width, sizes.hidden, out);
    shared_w13 = random.bf16_bank(kShared, 2 * sizes.hidden, sizes.width, in);
    shared_w2 = random.bf16_bank(kShared, sizes.width, sizes.hidden, out);
    x = random.tensor(type, {sizes.rows, sizes.width});
    rest = random.tensor(type, {sizes.rows, sizes.width}, 0.02F);
    bias = random.tensor(ScalarType::kF32, {sizes.experts}, 0.1F);
    scale = HostTensor(ScalarType::kF32, {1});
    scale.set(0, 1.25F);
    row_sequence = HostTensor(ScalarType::kI32, {sizes.rows});
    for (std::int64_t i = 0; i < sizes.rows; ++i)
      row_sequence.set(i, sizes.rows > 2 && i == sizes.rows - 1 ? -1.0F : 0.0F);
  }
};

Results run(Side& side, MixtureProblem& p, bool fused) {
  const Sizes& n = p.sizes;
  const std::int64_t slots = n.chosen + MixtureProblem::kShared;
  HostTensor logits(ScalarType::kF32, {n.rows, n.experts + MixtureProblem::kShared});
  HostTensor experts(ScalarType::kI32, {n.rows, n.chosen});
  HostTensor weights(ScalarType::kF32, {n.rows, slots});
  HostTensor hidden(p.x.type, {n.rows, slots, n.hidden});
  HostTensor out(p.x.type, p.x.shape);
  const MatrixBank gate = side.put(p.gate);
  const MatrixBank routed = side.put(p.routed_w13);
  const MatrixBank shared = side.put(p.shared_w13);
  const TensorView x = side.put(p.x);
  const TensorView view = side.put(logits);
  const ops::RouteArgs route{view,
                             side.put(p.bias),
                             side.put(p.scale),
                             8.0F,
                             side.put(experts),
                             side.put(weights),
                             side.put(p.row_sequence)};
  ops::MixtureArgs args{.gate = {.x = x, .weights = {&gate, 1}, .out = view, .step_rows = n.rows},
                        .route = route,
                        .moe = {.x = x,
                                .experts = route.experts,
                                .weights = route.weights,
                                .routed_w13 = {routed.every(2, 0), routed.every(2, 1)},
                                .routed_w2 = side.put(p.routed_w2),
                                .shared_w13 = {shared.every(2, 0), shared.every(2, 1)},
                                .shared_w2 = side.put(p.shared_w2),
                                .hidden = side.put(hidden),
                                .out = side.put(out),
                                .step_rows = n.rows,
                                .nvfp4_activations = n.w4a4}};
  if (n.with_rest) args.gate.x_rest = side.put(p.rest);
  // Several times over: what counts arrivals must be as it was.
  for (int i = 0; i < 3; ++i) {
    if (fused) {
      side.backend().mixture(args, side.stream());
    } else {
      side.backend().ops::Backend::mixture(args, side.stream());
    }
  }
  return {side.get(view), side.get(route.experts), side.get(route.weights), side.get(args.moe.out)};
}

TEST_P(Mixture, GivesTheBitsOfItsParts) {
  Random random(3);
  for (const Sizes& sizes :
       {Sizes{1, 128, 64, 16, 4, false}, Sizes{1, 256, 128, 16, 4, true}, Sizes{8, 256, 384, 17, 6, true},
        Sizes{1, 6144, 128, 8, 4, true}, Sizes{2, 6144, 128, 8, 4, true}, Sizes{8, 6144, 64, 8, 4, true},
        Sizes{5, 128, 64, 256, 6, true}, Sizes{3, 128, 64, 16, 4, true, true},
        Sizes{9, 256, 128, 16, 4, true}, Sizes{16, 6144, 64, 8, 4, true}, Sizes{17, 256, 128, 16, 4, true},
        Sizes{4, 512, 768, 12, 6, false}}) {
    for (const bool with_rest : {true, false}) {
      MixtureProblem problem(random, activation(), sizes);
      problem.sizes.with_rest = with_rest && !is_enough(GetParam());
      expect_same(run(subject(), problem, true), run(subject(), problem, false),
                  std::to_string(sizes.rows) + " rows, width " + std::to_string(sizes.width));
      subject().forget();
      if (is_enough(GetParam())) return;
    }
  }
}

// The mixture of few rows against the one of many: rows of a larger batch have the bits of their own.
TEST_P(Mixture, ARowsBitsAreItsOwn) {
  Random random(4);
  for (const bool quantised : {true, false}) {
    MixtureProblem many(random, activation(), {40, 256, 128, 17, 6, quantised});
    many.row_sequence.set(39, 0);
    many.sizes.with_rest = activation() == ScalarType::kBF16;
    const HostTensor expected = run(subject(), many, true).back();
    for (const std::int64_t rows : {1, 2, 8, 9, 16}) {
      MixtureProblem few = many;  // weights are views of `many`, which outlives this
      few.sizes.rows = rows;
      few.x = HostTensor(activation(), {rows, 256});
      std::memcpy(few.x.bytes.data(), many.x.bytes.data(), few.x.bytes.size());
      few.rest = HostTensor(activation(), {rows, 256});
      std::memcpy(few.rest.bytes.data(), many.rest.bytes.data(), few.rest.bytes.size());
      few.row_sequence = HostTensor(ScalarType::kI32, {rows});
      for (std::int64_t i = 0; i < rows; ++i) few.row_sequence.set(i, 0);
      const HostTensor out = run(subject(), few, true).back();
      EXPECT_EQ(std::memcmp(out.bytes.data(), expected.bytes.data(), out.bytes.size()), 0) << rows << " rows";
      subject().forget();
    }
  }
}

}  // namespace
}  // namespace inkstone::conformance
