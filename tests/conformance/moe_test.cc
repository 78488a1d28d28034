// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/conformance/rig.h"

namespace inkstone::conformance {
namespace {

class Route : public Conformance {};
INK_CONFORMANCE(Route);

struct Routed {
  HostTensor experts, weights;
};

Routed route(Side& side, HostTensor& logits, HostTensor& bias, std::int64_t chosen,
             HostTensor* row_sequence = nullptr) {
  HostTensor scale(ScalarType::kF32, {1});
  scale.set(0, 1.25F);
  HostTensor experts(ScalarType::kI32, {logits.shape[0], chosen});
  HostTensor weights(ScalarType::kF32, {logits.shape[0], chosen + logits.shape[1] - bias.shape[0]});
  ops::RouteArgs args{side.put(logits),  side.put(bias),   side.put(scale), 8.0F,
                      side.put(experts), side.put(weights)};
  if (row_sequence != nullptr) args.row_sequence = side.put(*row_sequence);
  side.backend().route(args, side.stream());
  return {side.get(args.experts), side.get(args.weights)};
}

TEST_P(Route, ChoosesTheSameExpertsAndWeights) {
  Random random(1);
  for (const auto& [experts, chosen] : {std::pair{16, 4}, std::pair{256, 6}, std::pair{37, 6}}) {
    HostTensor logits = random.tensor(ScalarType::kF32, {65, experts + 2}, 3);
    HostTensor bias = random.tensor(ScalarType::kF32, {experts}, 0.1F);
    const Routed expected = route(reference(), logits, bias, chosen);
    const Routed actual = route(subject(), logits, bias, chosen);
    EXPECT_TRUE(same_bits(actual.experts, expected.experts));
    EXPECT_TRUE(near(actual.weights, expected.weights, 1e-5F, 1e-7F));
  }
}

TEST_P(Route, GivesTiesToTheLowestExpertAndSurvivesExtremes) {
  HostTensor logits(ScalarType::kF32, {3, 18});
  HostTensor bias(ScalarType::kF32, {16});
  for (std::int64_t i = 0; i < 16; ++i) bias.set(i, 0);
  for (std::int64_t i = 0; i < 18; ++i) {
    logits.set(i, 1);
    logits.set(18 + i, i % 2 == 0 ? 90.0F : -90.0F);
    logits.set(36 + i, -100);
  }
  const Routed expected = route(reference(), logits, bias, 4);
  const Routed actual = route(subject(), logits, bias, 4);
  EXPECT_TRUE(same_bits(actual.experts, expected.experts));
  EXPECT_TRUE(near(actual.weights, expected.weights, 1e-5F, 1e-7F));
  for (int k = 0; k < 4; ++k) EXPECT_EQ(actual.experts.at(k), static_cast<float>(k));
}

TEST_P(Route, PaddingRowsChooseNobody) {
  Random random(2);
  HostTensor logits = random.tensor(ScalarType::kF32, {6, 18}, 3);
  HostTensor bias = random.tensor(ScalarType::kF32, {16}, 0.1F);
  HostTensor sequence(ScalarType::kI32, {6});
  for (std::int64_t i = 0; i < 6; ++i) sequence.set(i, i == 1 || i >= 4 ? -1.0F : 0.0F);
  const Routed without = route(subject(), logits, bias, 4);
  const Routed with = route(subject(), logits, bias, 4, &sequence);
  for (std::int64_t i = 0; i < 6; ++i) {
    const bool padding = sequence.at(i) < 0;
    for (std::int64_t k = 0; k < 4; ++k)
      EXPECT_EQ(with.experts.at(4 * i + k), padding ? -1 : without.experts.at(4 * i + k)) << i;
    for (std::int64_t k = 0; k < 6; ++k)
      EXPECT_EQ(with.weights.at(6 * i + k), padding ? 0 : without.weights.at(6 * i + k)) << i;
  }
}

class Moe : public Conformance {};
INK_CONFORMANCE(Moe);

struct Mixture {
  HostBank routed_w13, routed_w2, shared_w13, shared_w2;
  HostTensor x, experts, weights;
  std::int64_t hidden_width = 0;
};

struct Sizes {
  std::int64_t rows, width, hidden, experts, chosen;
  bool quantised;
};

Mixture make_mixture(Random& random, const Sizes& sizes, ScalarType type) {
  constexpr std::int64_t kShared = 2;
  const float in = 1 / std::sqrt(static_cast<float>(sizes.width));
  const float out = 1 / std::sqrt(static_cast<float>(sizes.hidden));
  Mixture made;
  made.hidden_width = sizes.hidden;
  made.routed_w13 = sizes.quantised ? random.nvfp4_bank(sizes.experts, 2 * sizes.hidden, sizes.width, in)
                                    : random.bf16_bank(sizes.experts, 2 * sizes.hidden, sizes.width, in);
  made.routed_w2 = sizes.quantised ? random.nvfp4_bank(sizes.experts, sizes.width, sizes.hidden, out)
                                   : random.bf16_bank(sizes.experts, sizes.width, sizes.hidden, out);
  made.shared_w13 = random.bf16_bank(kShared, 2 * sizes.hidden, sizes.width, in);
  made.shared_w2 = random.bf16_bank(kShared, sizes.width, sizes.hidden, out);
  made.x = random.tensor(type, {sizes.rows, sizes.width});
  made.experts = HostTensor(ScalarType::kI32, {sizes.rows, sizes.chosen});
  made.weights = HostTensor(ScalarType::kF32, {sizes.rows, sizes.chosen + kShared});
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    const std::int64_t start = random.below(sizes.experts);
    for (std::int64_t k = 0; k < sizes.chosen; ++k) {
      made.experts.set(row * sizes.chosen + k, static_cast<float>((start + 5 * k) % sizes.experts));
    }
    for (std::int64_t slot = 0; slot < sizes.chosen + kShared; ++slot) {
      made.weights.set(row * (sizes.chosen + kShared) + slot, 0.2F + 0.1F * static_cast<float>(slot));
    }
  }
  return made;
}

HostTensor run(Side& side, Mixture& mixture, std::int64_t step_rows, bool nvfp4_activations = false) {
  const MatrixBank routed = side.put(mixture.routed_w13);
  const MatrixBank shared = side.put(mixture.shared_w13);
  HostTensor hidden(mixture.x.type, {mixture.x.shape[0], mixture.weights.shape[1], mixture.hidden_width});
  HostTensor poison(mixture.x.type, mixture.x.shape);
  ops::MoeArgs args;
  args.x = side.put(mixture.x);
  args.experts = side.put(mixture.experts);
  args.weights = side.put(mixture.weights);
  args.routed_w13 = {routed.every(2, 0), routed.every(2, 1)};
  args.routed_w2 = side.put(mixture.routed_w2);
  args.shared_w13 = {shared.every(2, 0), shared.every(2, 1)};
  args.shared_w2 = side.put(mixture.shared_w2);
  args.hidden = side.put(hidden);
  args.out = side.put(poison);
  args.step_rows = step_rows;
  args.nvfp4_activations = nvfp4_activations;
  side.backend().moe(args, side.stream());
  return side.get(args.out);
}

// The hidden activations are rounded to BF16: one rounding that falls the other way moves an output by up to
// weight * |w2| / 256, so the absolute bound is a few of those.
constexpr float kHiddenNoise = 0.02F;

TEST_P(Moe, AgreesForBf16AndNvfp4) {
  Random random(2);
  for (const Sizes& sizes :
       {Sizes{1, 128, 64, 16, 4, false}, Sizes{1, 128, 64, 16, 4, true}, Sizes{9, 256, 128, 16, 4, true},
        Sizes{70, 128, 64, 16, 4, true}, Sizes{33, 256, 384, 40, 6, false}, Sizes{200, 128, 192, 8, 4, true},
        Sizes{300, 192, 64, 6, 4, false}}) {
    Mixture mixture = make_mixture(random, sizes, activation());
    const HostTensor expected = run(reference(), mixture, 0);
    for (const std::int64_t step_rows : {std::int64_t{0}, sizes.rows / 3, sizes.rows}) {
      EXPECT_TRUE(near(run(subject(), mixture, step_rows), expected, 2 * rounding(), kHiddenNoise))
          << sizes.rows << " rows, " << sizes.width << " x " << sizes.hidden
          << (sizes.quantised ? " NVFP4" : " BF16");
    }
  }
}

TEST_P(Moe, GivesZerosToRowsWithoutExperts) {
  Random random(3);
  Mixture mixture = make_mixture(random, {5, 128, 64, 16, 4, true}, activation());
  for (std::int64_t k = 0; k < 4; ++k) mixture.experts.set(2 * 4 + k, -1);
  const HostTensor out = run(subject(), mixture, 5);
  for (std::int64_t i = 0; i < 128; ++i) EXPECT_EQ(out.at(2 * 128 + i), 0);
  EXPECT_TRUE(near(out, run(reference(), mixture, 5), 2 * rounding(), kHiddenNoise));
}

TEST_P(Moe, RoundsInputsOfQuantisedProductsWhenAsked) {
  Random random(4);
  Mixture mixture = make_mixture(random, {6, 128, 64, 16, 4, true}, activation());
  // A hidden value on the border of two FP4 numbers can fall either way: a step of up to a sixth of the
  // block's largest, in one of 64 terms.
  EXPECT_TRUE(near(run(subject(), mixture, 0, true), run(reference(), mixture, 0, true), 0.05F, 0.15F));
}

TEST_P(Moe, ARowsBitsAreItsOwn) {
  Random random(5);
  Mixture all = make_mixture(random, {65, 128, 64, 16, 4, true}, activation());
  for (const bool step : {true, false}) {
    const HostTensor expected = run(subject(), all, step ? 65 : 0);
    for (const std::int64_t rows : {1, 7, 8, 9, 33}) {
      Mixture some = all;  // weights are views of `all`, which outlives this
      some.x = HostTensor(activation(), {rows, 128});
      some.experts = HostTensor(ScalarType::kI32, {rows, 4});
      some.weights = HostTensor(ScalarType::kF32, {rows, 6});
      for (auto [part, whole] : {std::pair{&some.x, &all.x}, std::pair{&some.experts, &all.experts},
                                 std::pair{&some.weights, &all.weights}}) {
        std::memcpy(part->bytes.data(), whole->bytes.data(), part->bytes.size());
      }
      const HostTensor out = run(subject(), some, step ? rows : 0);
      EXPECT_EQ(std::memcmp(out.bytes.data(), expected.bytes.data(), out.bytes.size()), 0) << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace inkstone::conformance
