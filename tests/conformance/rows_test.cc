// SPDX-License-Identifier: Apache-2.0
// Operations that treat rows one by one: embed, norm, elementwise, copy, quant.
#include "tests/conformance/rig.h"

namespace inkstone::conformance {
namespace {

class RowOps : public Conformance {};
INK_CONFORMANCE(RowOps);

// f32 arithmetic on both sides differs by some units of 2^-24; the result is rounded once to BF16.
constexpr float kSumNoise = 1e-5F;

TEST_P(RowOps, AddRoundsTheSumOnce) {
  Random random(1);
  for (const ScalarType type : {activation(), ScalarType::kF32}) {
    for (const std::int64_t rows : {1, 3, 130}) {
      HostTensor x = random.tensor(type, {rows, 384});
      HostTensor y = random.tensor(type, {rows, 384});
      HostTensor results[2];
      for (const int which : {0, 1}) {
        Side* const side = which == 0 ? &reference() : &subject();
        const TensorView out = side->put(x);
        side->backend().add({out, side->put(y), out}, side->stream());  // out aliases x
        results[which] = side->get(out);
      }
      EXPECT_TRUE(same_bits(results[1], results[0]));
    }
  }
}

TEST_P(RowOps, LogScaleTouchesOnlyColumnsOfItsView) {
  Random random(2);
  HostTensor x = random.tensor(activation(), {5, 256});
  HostTensor position(ScalarType::kI32, {5});
  const float places[] = {0, 1022, 1023, 131071, 1048575};
  for (int i = 0; i < 5; ++i) position.set(i, places[i]);
  HostTensor results[2];
  for (const int which : {0, 1}) {
    Side* const side = which == 0 ? &reference() : &subject();
    const TensorView whole = side->put(x);
    side->backend().log_scale({whole.columns_at(64, 128), side->put(position), 1024, 0.1F}, side->stream());
    results[which] = side->get(whole);
  }
  EXPECT_TRUE(near(results[1], results[0], rounding(), 0));
  for (int row = 0; row < 5; ++row) EXPECT_EQ(results[1].at(row * 256 + 63), x.at(row * 256 + 63));
}

class ScaleControls : public Conformance {};
INK_CONFORMANCE(ScaleControls);

// With a floor of one the first positions differ by percents; with the models' floors a shift by one changes
// no BF16.
TEST_P(ScaleControls, NoticeATauOfTheNextPosition) {
  Random random(11);
  HostTensor x = random.tensor(activation(), {4, 128});
  const auto scaled = [&](Side& side, float shift) {
    HostTensor position(ScalarType::kI32, {4});
    for (std::int64_t i = 0; i < 4; ++i) position.set(i, static_cast<float>(i) + shift);
    const TensorView out = side.put(x);
    side.backend().log_scale({out, side.put(position), 1, 0.1F}, side.stream());
    return side.get(out);
  };
  EXPECT_TRUE(near(scaled(subject(), 0), scaled(reference(), 0), rounding(), 0));
  EXPECT_FALSE(near(scaled(subject(), 1), scaled(reference(), 0), rounding(), 0));
}

// The dense layers' global scale multiplies a product.
TEST_P(ScaleControls, NoticeAGlobalScaleThatIsMissing) {
  Random random(12);
  HostTensor x = random.tensor(activation(), {3, 128});
  HostBank weight = random.bf16_bank(1, 64, 128, 0.1F);
  HostTensor scale(ScalarType::kBF16, {1});
  scale.set(0, 1.0625F);
  const auto product = [&](Side& side, bool scaled) {
    HostTensor poison(activation(), {3, 64});
    const MatrixBank bank = side.put(weight);
    ops::LinearArgs args{.x = side.put(x), .weights = {&bank, 1}, .out = side.put(poison), .step_rows = 3};
    if (scaled) args.out_scale = side.put(scale);
    side.backend().linear(args, side.stream());
    return side.get(args.out);
  };
  EXPECT_TRUE(near(product(subject(), true), product(reference(), true), rounding(), 1e-5F));
  EXPECT_FALSE(near(product(subject(), false), product(reference(), true), rounding(), 1e-5F));
}

TEST_P(RowOps, GeluIsTheExactOne) {
  Random random(3);
  HostTensor x = random.tensor(activation(), {7, 320}, 2);
  HostTensor results[2];
  for (const int which : {0, 1}) {
    Side* const side = which == 0 ? &reference() : &subject();
    const TensorView out = side->put(x);
    side->backend().gelu({out}, side->stream());
    results[which] = side->get(out);
  }
  EXPECT_TRUE(near(results[1], results[0], rounding(), kSumNoise));
}

TEST_P(RowOps, RmsNormAgreesForEveryWidthOfTheFamily) {
  Random random(4);
  for (const ScalarType type : {activation(), ScalarType::kF32}) {
    for (const std::int64_t width : {128, 320, 1024, 1032, 4096, 6144}) {
      HostTensor x = random.tensor(type, {9, width}, 3);
      HostTensor weight = random.tensor(ScalarType::kBF16, {width});
      HostTensor results[2];
      for (const int which : {0, 1}) {
        Side* const side = which == 0 ? &reference() : &subject();
        const TensorView out = side->put(x);
        side->backend().rms_norm({out, side->put(weight), out, 1e-6F}, side->stream());
        results[which] = side->get(out);
      }
      EXPECT_TRUE(near(results[1], results[0], rounding(), kSumNoise)) << width;
    }
  }
}

// The residual stream in f32: the rounded norm, and with what rounding took from it the norm to 16 bits.
TEST_P(RowOps, RmsNormOfTheStreamGivesWhatRoundingTakes) {
  Random random(13);
  if (activation() == ScalarType::kF32) GTEST_SKIP() << "nothing is rounded";
  for (const std::int64_t width : {128, 1032, 6144}) {
    HostTensor x = random.tensor(ScalarType::kF32, {9, width}, 3);
    HostTensor weight = random.tensor(ScalarType::kBF16, {width});
    HostTensor poison(activation(), x.shape);
    HostTensor whole[2];
    HostTensor rounded[2];
    for (const int which : {0, 1}) {
      Side* const side = which == 0 ? &reference() : &subject();
      const ops::RmsNormArgs args{side->put(x), side->put(weight), side->put(poison), 1e-6F,
                                  side->put(poison)};
      side->backend().rms_norm(args, side->stream());
      rounded[which] = side->get(args.out);
      const HostTensor rest = side->get(args.rest);
      whole[which] = HostTensor(ScalarType::kF32, x.shape);
      for (std::int64_t i = 0; i < x.size(); ++i) whole[which].set(i, rounded[which].at(i) + rest.at(i));
    }
    EXPECT_TRUE(near(rounded[1], rounded[0], rounding(), kSumNoise)) << width;
    EXPECT_TRUE(near(whole[1], whole[0], 0x1p-16F, kSumNoise)) << width;
  }
}

TEST_P(RowOps, RmsNormOfHeadsInsideWiderRows) {
  Random random(5);
  HostTensor x = random.tensor(activation(), {6, 1024});
  HostTensor weight = random.tensor(ScalarType::kBF16, {128});
  HostTensor results[2];
  for (const int which : {0, 1}) {
    Side* const side = which == 0 ? &reference() : &subject();
    const TensorView whole = side->put(x);
    const TensorView heads = whole.columns_at(256, 512).reshaped({6, 4, 128});
    side->backend().rms_norm({heads, side->put(weight), heads, 1e-6F}, side->stream());
    results[which] = side->get(whole);
  }
  EXPECT_TRUE(near(results[1], results[0], rounding(), kSumNoise));
}

TEST_P(RowOps, EmbedCopiesRows) {
  Random random(6);
  HostTensor table = random.tensor(ScalarType::kBF16, {50, 128});
  HostTensor ids = random.integers({33}, 50);
  for (const ScalarType type : {activation(), ScalarType::kF32}) {
    HostTensor out(type, {33, 128});
    HostTensor results[2];
    for (const int which : {0, 1}) {
      Side* const side = which == 0 ? &reference() : &subject();
      const TensorView to = side->put(out);
      side->backend().embed({side->put(ids), side->put(table), to}, side->stream());
      results[which] = side->get(to);
    }
    EXPECT_TRUE(same_bits(results[1], results[0]));
  }
}

TEST_P(RowOps, EmbedSumAddsOneRowPerColumn) {
  Random random(7);
  HostTensor table = random.tensor(ScalarType::kBF16, {80 * 16, 128});
  HostTensor levels = random.integers({5, 80}, 16);
  for (const ScalarType type : {activation(), ScalarType::kF32}) {
    HostTensor out(type, {5, 128});
    HostTensor results[2];
    for (const int which : {0, 1}) {
      Side* const side = which == 0 ? &reference() : &subject();
      const TensorView to = side->put(out);
      side->backend().embed_sum({side->put(levels), side->put(table), to, 16}, side->stream());
      results[which] = side->get(to);
    }
    EXPECT_TRUE(near(results[1], results[0], rounding(), 1e-4F));
  }
}

TEST_P(RowOps, MovedRowsConvertAndSkipNegativeIndices) {
  Random random(8);
  for (const auto& [from, onto] :
       {std::pair{ScalarType::kF32, activation()}, std::pair{ScalarType::kBF16, activation()},
        std::pair{ScalarType::kBF16, ScalarType::kF32}}) {
    for (const std::int64_t width : {75, 128}) {
      HostTensor x = random.tensor(from, {6, width});
      HostTensor index(ScalarType::kI32, {6});
      const float places[] = {3, -1, 0, 5, 1, -1};
      for (int i = 0; i < 6; ++i) index.set(i, places[i]);
      HostTensor target = random.tensor(onto, {6, width});
      HostTensor gathered[2];
      HostTensor scattered[2];
      for (const int which : {0, 1}) {
        Side* const side = which == 0 ? &reference() : &subject();
        const TensorView source = side->put(x);
        const TensorView rows = side->put(index);
        const TensorView to = side->put(target);
        side->backend().gather_rows({source, rows, to}, side->stream());
        gathered[which] = side->get(to);
        const TensorView back = side->put(target);
        side->backend().scatter_rows({source, rows, back}, side->stream());
        scattered[which] = side->get(back);
      }
      EXPECT_TRUE(same_bits(gathered[1], gathered[0]));
      EXPECT_TRUE(same_bits(scattered[1], scattered[0]));
    }
  }
}

TEST_P(RowOps, RoundingToNvfp4IsBitwise) {
  Random random(9);
  for (const float deviation : {1e-6F, 0.05F, 1.0F, 100.0F}) {
    HostTensor x = random.tensor(activation(), {17, 256}, deviation);
    for (int i = 0; i < 16; ++i) x.set(i, 0);  // a block of zeros
    HostTensor amax(ScalarType::kBF16, {1});
    amax.set(0, 6);
    HostTensor results[2];
    for (const int which : {0, 1}) {
      Side* const side = which == 0 ? &reference() : &subject();
      const TensorView out = side->put(x);
      side->backend().round_nvfp4({out, side->put(amax), out}, side->stream());
      results[which] = side->get(out);
    }
    EXPECT_TRUE(near(results[1], results[0], 0, 0)) << deviation;
  }
}

}  // namespace
}  // namespace inkstone::conformance
