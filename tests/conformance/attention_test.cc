// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/conformance/sequences.h"

namespace inkstone::conformance {
namespace {

class Attention : public Conformance {};
INK_CONFORMANCE(Attention);

constexpr std::int64_t kHead = 128;
constexpr std::int64_t kFeatures = 16;

// Geometry of a layer kind.
struct Kind {
  std::int64_t heads, kv_heads, extent, window;
};
// Rank shapes of Inkling and Small, global and sliding, and the mini's.
constexpr Kind kGlobal{8, 1, 1024, 0};
constexpr Kind kSliding{8, 2, 512, 512};
constexpr Kind kMiniGlobal{4, 2, 256, 0};
constexpr Kind kMiniSliding{4, 4, 128, 128};

struct Problem {
  Kind kind;
  std::vector<Span> spans;
  HostTensor q, k, v, rel, rel_proj;
  HostRows rows;
  HostState state;

  Problem(Random& random, const Kind& geometry, const std::vector<Span>& batch, ScalarType type,
          std::int64_t padding = 0)
      : kind(geometry), spans(batch), rows(batch, padding), state(make_state(random, geometry, batch, type)) {
    const std::int64_t total = rows.row_sequence.size();
    // Scores: q . k / 128 has deviation 128^-1/2 * 3 * 3, the bias about 1: both decide.
    q = random.tensor(type, {total, kind.heads, kHead}, 3);
    k = random.tensor(type, {total, kind.kv_heads, kHead}, 3);
    v = random.tensor(type, {total, kind.kv_heads, kHead});
    rel = random.tensor(type, {total, kind.heads, kFeatures});
    rel_proj = random.tensor(ScalarType::kBF16, {kFeatures, kind.extent}, 0.3F);
  }

  static HostState make_state(Random& random, const Kind& kind, const std::vector<Span>& batch,
                              ScalarType type) {
    std::int64_t longest = 0;
    for (const Span& span : batch) longest = std::max(longest, span.first + span.rows);
    const std::int64_t ring = kind.window > 0 ? kind.window + 64 : 0;
    HostState state(random, type, static_cast<std::int64_t>(batch.size()), longest, ring,
                    {kind.kv_heads, 2, kHead});
    for (std::size_t s = 0; s < batch.size(); ++s) {
      const std::int64_t oldest = kind.window > 0 ? batch[s].first - kind.window + 1 : 0;
      state.fill(random, static_cast<std::int64_t>(s), oldest, batch[s].first, 2);
    }
    return state;
  }
};

HostTensor run(Side& side, Problem& p, std::int64_t step_rows) {
  HostTensor poison(p.q.type, p.q.shape);
  const ops::AttentionArgs args{.q = side.put(p.q),
                                .k = side.put(p.k),
                                .v = side.put(p.v),
                                .rel = side.put(p.rel),
                                .rel_proj = side.put(p.rel_proj),
                                .rows = p.rows.put(side),
                                .older = p.state.put(side),
                                .out = side.put(poison),
                                .scale = 1.0F / kHead,
                                .window = p.kind.window,
                                .step_rows = step_rows};
  side.backend().attention(args, side.stream());
  HostTensor out = side.get(args.out);
  const std::int64_t width = p.kind.heads * kHead;
  std::int64_t used = 0;
  for (const Span& span : p.spans) used += span.rows;
  for (std::int64_t i = used * width; i < out.size(); ++i) out.set(i, 0);  // padding rows mean nothing
  return out;
}

// Weights of the softmax may be rounded to BF16 (2^-9 each, about |v| = 1), the result is once more. The
// weights sum to one: 0.02 bounds all of it. The bias is not rounded on either side: four deviations of it
// are 5, and 2^-9 of that in the exponent, in a weight and in the sum of the weights, would be as much again.
constexpr float kAttentionNoise = 0.02F;

TEST_P(Attention, AgreesForStepsAtEveryBorder) {
  Random random(1);
  for (const Kind& kind : {kGlobal, kSliding, kMiniGlobal, kMiniSliding}) {
    for (const std::int64_t length :
         {1, 2, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 1537}) {
      for (const std::int64_t rows : {1, 2, 9, 16}) {
        if (rows > length) continue;
        Problem problem(random, kind, {{length - rows, rows}}, activation());
        EXPECT_TRUE(
            near(run(subject(), problem, rows), run(reference(), problem, rows), rounding(), kAttentionNoise))
            << rows << " rows of " << length << ", window " << kind.window;
        subject().forget();
      }
    }
  }
}

TEST_P(Attention, AgreesForPrefillWithOlderKeys) {
  Random random(2);
  for (const Kind& kind : {kGlobal, kSliding, kMiniGlobal, kMiniSliding}) {
    for (const auto& spans :
         {std::vector<Span>{{0, 1}}, std::vector<Span>{{0, 64}}, std::vector<Span>{{0, 129}},
          std::vector<Span>{{127, 128}}, std::vector<Span>{{1000, 65}}, std::vector<Span>{{530, 200}},
          std::vector<Span>{{0, 128}, {0, 128}}, std::vector<Span>{{256, 137}, {0, 64}, {5, 1}}}) {
      Problem problem(random, kind, spans, activation(), 3);
      EXPECT_TRUE(near(run(subject(), problem, 0), run(reference(), problem, 0), rounding(), kAttentionNoise))
          << "first " << spans[0].first << " rows " << spans[0].rows << ", window " << kind.window;
      subject().forget();
    }
  }
}

// v is one at one key and zero elsewhere, q is zero: the output is the softmax of the bias alone, at that
// distance.
TEST_P(Attention, ReadsTheBiasOfEveryDistance) {
  Random random(3);
  const std::int64_t length = 1200;
  for (const std::int64_t distance : {0, 1, 63, 64, 127, 128, 511, 512, 1023, 1024, 1100}) {
    Problem problem(random, kGlobal, {{length - 1, 1}}, activation());
    for (std::int64_t i = 0; i < problem.q.size(); ++i) problem.q.set(i, 0);
    for (std::int64_t i = 0; i < problem.v.size(); ++i) problem.v.set(i, distance == 0 ? 1.0F : 0.0F);
    const ops::StateRows state{problem.state.storage.view(), problem.state.table.view(), 0};
    for (std::int64_t position = 0; position < length - 1; ++position) {
      const std::int64_t row = ops::row_index(state, 0, position);
      for (std::int64_t d = 0; d < kHead; ++d) {
        problem.state.storage.set((row * 2 + 1) * kHead + d,
                                  position == length - 1 - distance ? 1000.0F : 0.0F);
      }
    }
    // Weights of single keys are about 1/1200 of the whole, and vary by factors with the bias: a bias of a
    // neighbouring distance would be off by far more than this.
    EXPECT_TRUE(near(run(subject(), problem, 1), run(reference(), problem, 1), 0.03F, 1e-5F)) << distance;
    EXPECT_TRUE(near(run(subject(), problem, 0), run(reference(), problem, 0), 0.03F, 1e-5F)) << distance;
  }
}

// A batch and each of its sequences alone give the same bits, in both classes.
TEST_P(Attention, ASequencesBitsAreItsOwn) {
  Random random(4);
  for (const Kind& kind : {kGlobal, kSliding, kMiniSliding}) {
    for (const bool step : {true, false}) {
      const std::vector<Span> spans = step ? std::vector<Span>{{700, 1}, {0, 1}, {129, 9}, {510, 16}}
                                           : std::vector<Span>{{256, 137}, {0, 64}, {600, 1}, {31, 128}};
      Problem all(random, kind, spans, activation());
      const HostTensor expected = run(subject(), all, step ? all.rows.row_sequence.size() : 0);
      std::int64_t begin = 0;
      for (std::size_t s = 0; s < spans.size(); ++s) {
        Problem one = all;
        one.spans = {spans[s]};
        one.rows = HostRows(one.spans);
        const std::int64_t rows = spans[s].rows;
        for (auto [part, whole, width] : {std::tuple{&one.q, &all.q, kind.heads * kHead},
                                          std::tuple{&one.k, &all.k, kind.kv_heads * kHead},
                                          std::tuple{&one.v, &all.v, kind.kv_heads * kHead},
                                          std::tuple{&one.rel, &all.rel, kind.heads * kFeatures}}) {
          *part = HostTensor(whole->type, {rows, whole->shape[1], whole->shape[2]});
          std::memcpy(part->bytes.data(), whole->bytes.data() + begin * width * size_bytes(whole->type),
                      part->bytes.size());
        }
        const std::int64_t entries = all.state.table.size() / static_cast<std::int64_t>(spans.size());
        one.state.table =
            kind.window > 0 ? HostTensor(ScalarType::kI32, {1}) : HostTensor(ScalarType::kI32, {1, entries});
        std::memcpy(one.state.table.bytes.data(), all.state.table.bytes.data() + s * entries * 4,
                    one.state.table.bytes.size());
        const HostTensor out = run(subject(), one, step ? rows : 0);
        EXPECT_EQ(std::memcmp(out.bytes.data(),
                              expected.bytes.data() + begin * kind.heads * kHead * size_bytes(expected.type),
                              out.bytes.size()),
                  0)
            << (step ? "step" : "prefill") << " sequence " << s << ", window " << kind.window;
        begin += rows;
        subject().forget();
      }
    }
  }
}

TEST_P(Attention, StoresKeysAndValuesWhereTheStateRuleSays) {
  Random random(5);
  for (const Kind& kind : {kGlobal, kSliding, kMiniSliding}) {
    Problem problem(random, kind, {{60, 70}, {0, 1}, {190, 300}}, activation(), 2);
    HostTensor stored[2];
    for (const int which : {0, 1}) {
      Side* const side = which == 0 ? &reference() : &subject();
      const ops::StoreKvArgs args{side->put(problem.k), side->put(problem.v), problem.rows.put(*side),
                                  problem.state.put(*side)};
      side->backend().store_kv(args, side->stream());
      stored[which] = side->get(args.state.storage);
    }
    EXPECT_TRUE(same_bits(stored[1], stored[0]));
  }
}

// Planted faults: each must be noticed by the comparison above.
class AttentionControls : public Attention {
 protected:
  ::testing::AssertionResult agrees(Problem& broken, Problem& whole, std::int64_t step_rows) {
    return near(run(subject(), broken, step_rows), run(reference(), whole, step_rows), rounding(),
                kAttentionNoise);
  }
};
INK_CONFORMANCE(AttentionControls);

TEST_P(AttentionControls, NoticeABiasThatIsDropped) {
  Random random(6);
  for (const std::int64_t step_rows : {9, 0}) {
    Problem whole(random, kGlobal, {{300, 9}}, activation());
    Problem broken = whole;
    for (std::int64_t i = 0; i < broken.rel.size(); ++i) broken.rel.set(i, 0);
    EXPECT_TRUE(agrees(whole, whole, step_rows));
    EXPECT_FALSE(agrees(broken, whole, step_rows));
  }
}

// Distances counted from the first query row of the batch instead of from position zero move the bias by as
// many keys as there are older ones: here by a tile.
TEST_P(AttentionControls, NoticeABiasOnTheWrongTileWhereKeysOutnumberQueries) {
  Random random(7);
  for (const std::int64_t step_rows : {16, 0}) {
    Problem whole(random, kGlobal, {{64, 16}}, activation());
    Problem broken = whole;
    for (std::int64_t feature = 0; feature < kFeatures; ++feature) {
      for (std::int64_t distance = 0; distance < kGlobal.extent; ++distance) {
        const std::int64_t moved = std::max<std::int64_t>(0, distance - 64);
        broken.rel_proj.set(feature * kGlobal.extent + distance,
                            whole.rel_proj.at(feature * kGlobal.extent + moved));
      }
    }
    EXPECT_FALSE(agrees(broken, whole, step_rows));
  }
}

TEST_P(AttentionControls, NoticeAWindowThatIsOffByOne) {
  Random random(8);
  for (const std::int64_t step_rows : {1, 0}) {
    for (const std::int64_t off : {-1, 1}) {
      Problem whole(random, kMiniSliding, {{400, 1}}, activation());
      // The key at the border decides: its value is large.
      const ops::StateRows state{whole.state.storage.view(), whole.state.table.view(), whole.state.ring_rows};
      const std::int64_t border = 400 - kMiniSliding.window + (off < 0 ? 1 : 0);
      const std::int64_t row = ops::row_index(state, 0, border);
      for (std::int64_t head = 0; head < kMiniSliding.kv_heads; ++head) {
        const std::int64_t key = (row * kMiniSliding.kv_heads + head) * 2 * kHead;
        for (std::int64_t d = 0; d < kHead; ++d) {
          whole.state.storage.set(key + d, 0);
          whole.state.storage.set(key + kHead + d, 100);
        }
      }
      Problem broken = whole;
      broken.kind.window += off;
      EXPECT_TRUE(agrees(whole, whole, step_rows));
      EXPECT_FALSE(agrees(broken, whole, step_rows)) << "by " << off;
    }
  }
}

TEST_P(AttentionControls, NoticeSplitsThatAreCombinedWithoutTheirMaximum) {
  Random random(9);
  Problem problem(random, kGlobal, {{700, 1}}, activation());
  for (std::int64_t i = 0; i < problem.q.size(); ++i) problem.q.set(i, 3 * problem.q.at(i));
  EXPECT_TRUE(agrees(problem, problem, 1));
  if (!forget_maximum(subject(), true)) return;
  EXPECT_FALSE(agrees(problem, problem, 1));
  forget_maximum(subject(), false);
  EXPECT_TRUE(agrees(problem, problem, 1));
}

}  // namespace
}  // namespace inkstone::conformance
