// SPDX-License-Identifier: Apache-2.0
// Products with weights as stored: agreement with the reference, and the contract that a row's bits are its
// own.
#include <cmath>

#include "tests/conformance/rig.h"

namespace inkstone::conformance {
namespace {

class Linear : public Conformance {};
INK_CONFORMANCE(Linear);

// Inputs are normal, weights have deviation 1 / sqrt(K): outputs are about 1. Two orders of a sum of K
// products in f32 differ by at most K * 2^-24 * sum |w x|, and sum |w x| is below 1.2 sqrt(K); in practice
// far less.
float noise(std::int64_t columns) { return std::sqrt(static_cast<float>(columns)) * 1e-6F; }

struct Case {
  std::int64_t rows, columns;
  std::vector<std::int64_t> outputs;
};

struct Call {
  ScalarType out_type = ScalarType::kBF16;
  float alpha = 1;
  HostTensor* out_scale = nullptr;
  std::int64_t step_rows = 0;
};

HostTensor run(Side& side, HostTensor& x, std::vector<HostBank>& weights, const Call& call) {
  std::vector<MatrixBank> banks;
  std::int64_t width = 0;
  for (HostBank& weight : weights) {
    banks.push_back(side.put(weight));
    width += weight.bank.rows;
  }
  HostTensor poison(call.out_type, {x.shape[0], width});
  ops::LinearArgs args{.x = side.put(x),
                       .weights = banks,
                       .out = side.put(poison),
                       .alpha = call.alpha,
                       .step_rows = call.step_rows};
  if (call.out_scale != nullptr) args.out_scale = side.put(*call.out_scale);
  side.backend().linear(args, side.stream());
  return side.get(args.out);
}

TEST_P(Linear, AgreesForRowsAroundEveryTile) {
  Random random(1);
  for (const Case& shape : {Case{1, 128, {64}}, Case{7, 64, {40}}, Case{8, 96, {18, 16}},
                            Case{9, 128, {512, 256, 256, 64}}, Case{33, 256, {258}}, Case{129, 320, {72}},
                            Case{300, 1024, {200, 130}}, Case{2, 6144, {768, 128, 128, 128}}}) {
    std::vector<HostBank> weights;
    for (const std::int64_t rows : shape.outputs) {
      weights.push_back(
          random.bf16_bank(1, rows, shape.columns, 1 / std::sqrt(static_cast<float>(shape.columns))));
    }
    HostTensor x = random.tensor(activation(), {shape.rows, shape.columns});
    for (const ScalarType out : {activation(), ScalarType::kF32}) {
      const HostTensor expected = run(reference(), x, weights, {out, 0.5F, nullptr, 0});
      // An f32 result of BF16 products is not rounded at all.
      const bool exact = out == ScalarType::kF32 && activation() == ScalarType::kBF16;
      const float relative = exact ? 0 : rounding();
      for (const std::int64_t step_rows : {std::int64_t{0}, shape.rows}) {
        EXPECT_TRUE(near(run(subject(), x, weights, {out, 0.5F, nullptr, step_rows}), expected, relative,
                         noise(shape.columns)))
            << shape.rows << " x " << shape.columns << " step " << step_rows;
      }
    }
  }
}

// What rounding took from the input is another product: the router's logits to 16 bits of its input.
TEST_P(Linear, AddsTheRestOfItsInput) {
  Random random(7);
  if (activation() == ScalarType::kF32) GTEST_SKIP() << "f32 activations leave no rest";
  for (const std::int64_t rows : {1, 8, 9, 40}) {
    HostBank weight = random.bf16_bank(1, 258, 1024, 1.0F / 32);
    HostTensor x = random.tensor(activation(), {rows, 1024});
    HostTensor rest = random.tensor(activation(), {rows, 1024}, 0.1F);  // large, so that its absence shows
    HostTensor poison(ScalarType::kF32, {rows, 258});
    HostTensor results[2];
    for (const int which : {0, 1}) {
      Side* const side = which == 0 ? &reference() : &subject();
      const MatrixBank bank = side->put(weight);
      const ops::LinearArgs args{.x = side->put(x),
                                 .weights = {&bank, 1},
                                 .out = side->put(poison),
                                 .step_rows = rows,
                                 .x_rest = side->put(rest)};
      side->backend().linear(args, side->stream());
      results[which] = side->get(args.out);
    }
    EXPECT_TRUE(near(results[1], results[0], 0, noise(1024))) << rows << " rows";
  }
}

TEST_P(Linear, TakesInputsAndWeightsOfAnyWidth) {
  Random random(2);
  for (const std::int64_t columns : {75, 8, 100}) {
    std::vector<HostBank> weights;
    weights.push_back(random.bf16_bank(1, 128, columns, 0.1F));
    HostTensor x = random.tensor(activation(), {11, columns});
    EXPECT_TRUE(near(run(subject(), x, weights, {activation(), 1, nullptr, 0}),
                     run(reference(), x, weights, {activation(), 1, nullptr, 0}), rounding(), 1e-5F));
  }
}

TEST_P(Linear, ScalesByANumberInDeviceMemory) {
  Random random(3);
  std::vector<HostBank> weights;
  weights.push_back(random.bf16_bank(1, 128, 256, 0.06F));
  HostTensor x = random.tensor(activation(), {3, 256});
  for (const ScalarType type : {ScalarType::kF32, ScalarType::kBF16}) {
    HostTensor scale(type, {1});
    scale.set(0, 1.75F);
    EXPECT_TRUE(near(run(subject(), x, weights, {activation(), 1, &scale, 0}),
                     run(reference(), x, weights, {activation(), 1, &scale, 0}), rounding(), 1e-4F));
  }
}

TEST_P(Linear, DecodesNvfp4AsTheCheckpointSays) {
  Random random(4);
  for (const std::int64_t columns : {64, 128, 384, 3072}) {
    std::vector<HostBank> weights;
    weights.push_back(random.nvfp4_bank(1, 80, columns, 1 / std::sqrt(static_cast<float>(columns))));
    for (const std::int64_t rows : {1, 9, 40}) {
      HostTensor x = random.tensor(activation(), {rows, columns});
      EXPECT_TRUE(near(run(subject(), x, weights, {activation(), 1, nullptr, rows}),
                       run(reference(), x, weights, {activation(), 1, nullptr, rows}), rounding(),
                       noise(columns)))
          << columns << " columns, " << rows << " rows";
    }
  }
}

// The contract of the two classes: one row alone, and the same row among others, give the same bits.
TEST_P(Linear, ARowsBitsAreItsOwn) {
  Random random(5);
  for (const bool quantised : {false, true}) {
    std::vector<HostBank> weights;
    weights.push_back(quantised ? random.nvfp4_bank(1, 96, 384, 0.05F) : random.bf16_bank(1, 96, 384, 0.05F));
    const std::int64_t most = 257;
    HostTensor x = random.tensor(activation(), {most, 384});
    for (const bool step : {true, false}) {
      const HostTensor all = run(subject(), x, weights, {ScalarType::kF32, 1, nullptr, step ? most : 0});
      for (const std::int64_t rows : {1, 2, 7, 8, 9, 16, 31, 32, 64, 129, 256}) {
        HostTensor part(activation(), {rows, 384});
        std::memcpy(part.bytes.data(), x.bytes.data(), part.bytes.size());
        const HostTensor some =
            run(subject(), part, weights, {ScalarType::kF32, 1, nullptr, step ? rows : 0});
        EXPECT_EQ(std::memcmp(some.bytes.data(), all.bytes.data(), some.bytes.size()), 0)
            << rows << (step ? " step" : " prefill") << " rows";
      }
    }
  }
}

// Leading rows of one class and the rest of the other: each has the bits that its class gives it.
TEST_P(Linear, TakesRowsOfBothClassesAtOnce) {
  Random random(8);
  std::vector<HostBank> weights;
  weights.push_back(random.bf16_bank(1, 96, 384, 0.05F));
  const std::int64_t rows = 50;
  const std::int64_t step_rows = 5;
  HostTensor x = random.tensor(activation(), {rows, 384});
  const HostTensor steps = run(subject(), x, weights, {ScalarType::kF32, 1, nullptr, rows});
  const HostTensor prefill = run(subject(), x, weights, {ScalarType::kF32, 1, nullptr, 0});
  const HostTensor both = run(subject(), x, weights, {ScalarType::kF32, 1, nullptr, step_rows});
  const std::size_t border = step_rows * 96 * sizeof(float);
  EXPECT_EQ(std::memcmp(both.bytes.data(), steps.bytes.data(), border), 0);
  EXPECT_EQ(
      std::memcmp(both.bytes.data() + border, prefill.bytes.data() + border, both.bytes.size() - border), 0);
}

class GatedLinear : public Conformance {};
INK_CONFORMANCE(GatedLinear);

HostTensor run_gated(Side& side, HostTensor& x, HostBank& fused, std::int64_t step_rows) {
  const MatrixBank both = side.put(fused);
  HostTensor poison(x.type, {x.shape[0], fused.bank.rows / 2});
  const ops::GatedLinearArgs args{
      side.put(x), {both.every(2, 0), both.every(2, 1)}, side.put(poison), step_rows};
  side.backend().gated_linear(args, side.stream());
  return side.get(args.out);
}

// Products are rounded to BF16 before silu: where the two sides round a product differently, the result
// differs by one rounding more.
TEST_P(GatedLinear, AgreesOnInterleavedHalves) {
  Random random(6);
  for (const std::int64_t columns : {128, 1024}) {
    HostBank fused = random.bf16_bank(1, 2 * 136, columns, 1 / std::sqrt(static_cast<float>(columns)));
    for (const std::int64_t rows : {1, 8, 9, 50, 150}) {
      HostTensor x = random.tensor(activation(), {rows, columns});
      const HostTensor expected = run_gated(reference(), x, fused, 0);
      for (const std::int64_t step_rows : {std::int64_t{0}, std::int64_t{6}, rows})
        EXPECT_TRUE(near(run_gated(subject(), x, fused, step_rows), expected, 3 * rounding(), noise(columns)))
            << rows << " rows, " << step_rows << " of steps";
    }
  }
}

}  // namespace
}  // namespace inkstone::conformance
