// SPDX-License-Identifier: Apache-2.0
// The towers of the real configuration (four stages; the mini's three are compared with goldens), computed a
// second time in double, straight from `multimodal.md` 2.5 and 3.5.
#include "model/towers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "backends/reference/reference_backend.h"

namespace inkstone::model {
namespace {

constexpr std::int64_t kPatch = 40;
constexpr std::int64_t kWidth = 24;  // M
// Real folds 5 x 5, 2 x 2, 4 x 4, two frames; narrow stages.
constexpr std::array<std::int64_t, 3> kSides = {5, 2, 4};
constexpr std::array<std::int64_t, 5> kWidths = {3, 8, 12, 20, kWidth};

std::vector<BFloat16> random_weights(std::int64_t count, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<BFloat16> weights(static_cast<std::size_t>(count));
  for (BFloat16& weight : weights) weight = to_bfloat16(scale * normal(random));
  return weights;
}

// Cells [frames][rows][columns][channels] of one patch.
struct Grid {
  std::int64_t frames = 0;
  std::int64_t side = 0;
  std::int64_t channels = 0;
  std::vector<double> values;

  double& at(std::int64_t t, std::int64_t y, std::int64_t x, std::int64_t c) {
    return values[static_cast<std::size_t>(((t * side + y) * side + x) * channels + c)];
  }
};

// One neighbourhood of time x side x side cells: time, row, column, channel, channel fastest.
std::vector<double> neighbourhood(Grid& grid, std::int64_t time, std::int64_t side, std::int64_t y,
                                  std::int64_t x) {
  std::vector<double> values;
  for (std::int64_t t = 0; t < time; ++t) {
    for (std::int64_t i = 0; i < side; ++i) {
      for (std::int64_t j = 0; j < side; ++j) {
        for (std::int64_t c = 0; c < grid.channels; ++c)
          values.push_back(grid.at(t, y * side + i, x * side + j, c));
      }
    }
  }
  return values;
}

std::vector<double> product(const std::vector<BFloat16>& weight, const std::vector<double>& x) {
  std::vector<double> out(weight.size() / x.size());
  for (std::size_t i = 0; i < weight.size(); ++i) out[i / x.size()] += to_float(weight[i]) * x[i % x.size()];
  return out;
}

void normalise(std::vector<double>& x, const std::vector<BFloat16>& weight) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double root = std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= to_float(weight[i]) / root;
}

class Towers : public ::testing::Test {
 protected:
  Towers() {
    std::int64_t columns = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      columns = i < 3 ? kWidths[i] * kSides[i] * kSides[i] : kWidths[i] * 2;
      const std::int64_t rows = kWidths[i + 1];
      linear_.push_back(
          random_weights(rows * columns, 1.5F / std::sqrt(static_cast<float>(columns)), random_));
      norm_.push_back(random_weights(rows, 1, random_));
      vision_.linear.push_back(
          MatrixBank::of(TensorView(linear_.back().data(), ScalarType::kBF16, {rows, columns})));
      const TensorView norm(norm_.back().data(), ScalarType::kBF16, {rows});
      if (i < 3) vision_.norm.push_back(norm);
      vision_.final_norm = norm;
    }
  }

  // The tower's vector for a patch in raster order.
  std::vector<double> expected_vector(const std::vector<float>& patch) const {
    Grid grid{2, kPatch, 3, {patch.begin(), patch.end()}};
    grid.values.insert(grid.values.end(), patch.begin(), patch.end());  // the second frame
    for (std::size_t i = 0; i < 3; ++i) grid = stage(grid, i);
    std::vector<double> vector = product(linear_[3], neighbourhood(grid, 2, 1, 0, 0));
    normalise(vector, norm_[3]);
    return vector;
  }

  Grid stage(Grid& in, std::size_t i) const {
    Grid out{2, in.side / kSides[i], kWidths[i + 1], {}};
    for (std::int64_t t = 0; t < 2; ++t) {
      Grid frame{1, in.side, in.channels, {}};
      const auto size = static_cast<std::ptrdiff_t>(in.values.size() / 2);
      frame.values.assign(in.values.begin() + t * size, in.values.begin() + (t + 1) * size);
      for (std::int64_t cell = 0; cell < out.side * out.side; ++cell) {
        std::vector<double> x =
            product(linear_[i], neighbourhood(frame, 1, kSides[i], cell / out.side, cell % out.side));
        normalise(x, norm_[i]);
        for (double& value : x) value *= (1 + std::erf(value / std::numbers::sqrt2)) / 2;
        out.values.insert(out.values.end(), x.begin(), x.end());
      }
    }
    return out;
  }

  // As media::cut_patches orders pixels for these sides.
  static std::vector<float> nested(const std::vector<float>& patch) {
    std::vector<float> out(patch.size());
    for (std::int64_t y = 0; y < kPatch; ++y) {
      for (std::int64_t x = 0; x < kPatch; ++x) {
        const std::int64_t at =
            ((y / 10 * 4 + x / 10) * 4 + y / 5 % 2 * 2 + x / 5 % 2) * 25 + y % 5 * 5 + x % 5;
        for (std::int64_t c = 0; c < 3; ++c)
          out[static_cast<std::size_t>(at * 3 + c)] =
              patch[static_cast<std::size_t>((y * kPatch + x) * 3 + c)];
      }
    }
    return out;
  }

  std::vector<float> random_patch() {
    std::normal_distribution<float> normal;
    std::vector<float> patch(kPatch * kPatch * 3);
    for (float& value : patch) value = normal(random_);
    return patch;
  }

  template <class Tower>
  void run(const Tower& tower, const TensorView& in, const TensorView& out) {
    std::vector<std::byte> memory(static_cast<std::size_t>(tower.workspace_bytes()));
    Workspace workspace(memory.data(), tower.workspace_bytes());
    const auto stream = backend_.make_stream();
    tower.run(in, out, workspace, *stream);
    stream->wait();
  }

  std::mt19937 random_{5};
  std::vector<std::vector<BFloat16>> linear_;
  std::vector<std::vector<BFloat16>> norm_;
  VisionWeights vision_;
  reference::ReferenceBackend backend_{2};
};

const checkpoint::VisionConfig kVision = {kPatch, 2, 3, 4};

TEST_F(Towers, FourStagesFoldAsTheDefinitionSays) {
  const auto tower = VisionTower::create(kVision, vision_, backend_, 2);
  ASSERT_TRUE(tower) << tower.error().message;
  EXPECT_EQ(tower->patch_sides(), (std::vector<std::int64_t>{5, 2, 4, 1}));
  std::vector<float> patches;
  std::vector<double> expected;
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> patch = random_patch();
    const std::vector<float> order = nested(patch);
    patches.insert(patches.end(), order.begin(), order.end());
    const std::vector<double> vector = expected_vector(patch);
    expected.insert(expected.end(), vector.begin(), vector.end());
  }
  std::vector<float> out(3 * kWidth);
  run(*tower, TensorView(patches.data(), ScalarType::kF32, {3, tower->patch_values()}),
      TensorView(out.data(), ScalarType::kF32, {3, kWidth}));
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-5) << i;
}

TEST_F(Towers, StagesThatDoNotFoldAPatchAreRefused) {
  vision_.linear.erase(vision_.linear.begin());
  EXPECT_FALSE(VisionTower::create(kVision, vision_, backend_, 2));
}

TEST_F(Towers, AudioRowsAreSummedThenRoundedThenNormalised) {
  constexpr std::int64_t kBins = 5;
  constexpr std::int64_t kLevels = 16;
  std::vector<BFloat16> table = random_weights(kBins * kLevels * kWidth, 1, random_);
  std::vector<BFloat16> norm = random_weights(kWidth, 1, random_);
  const AudioWeights weights{TensorView(table.data(), ScalarType::kBF16, {kBins * kLevels, kWidth}),
                             TensorView(norm.data(), ScalarType::kBF16, {kWidth})};
  const auto tower = AudioTower::create({kBins, kLevels, -7, 2}, weights, backend_, 2);
  ASSERT_TRUE(tower);
  std::vector<std::int32_t> levels = {0, 15, 3, 3, 7, 1, 2, 3, 4, 5, 15, 15, 15, 15, 15};
  const TensorView in(levels.data(), ScalarType::kI32, {3, kBins});
  std::vector<float> exact(3 * kWidth);
  run(*tower, in, TensorView(exact.data(), ScalarType::kF32, {3, kWidth}));
  std::vector<BFloat16> rounded(3 * kWidth);
  run(*tower, in, TensorView(rounded.data(), ScalarType::kBF16, {3, kWidth}));
  for (std::size_t t = 0; t < 3; ++t) {
    std::vector<double> sum(kWidth);
    for (std::size_t m = 0; m < kBins; ++m) {
      const std::size_t row = m * kLevels + static_cast<std::size_t>(levels[t * kBins + m]);
      for (std::size_t i = 0; i < kWidth; ++i) sum[i] += to_float(table[row * kWidth + i]);
    }
    std::vector<double> rounded_sum(sum);
    for (double& value : rounded_sum) value = to_float(to_bfloat16(static_cast<float>(value)));
    normalise(sum, norm);
    normalise(rounded_sum, norm);
    for (std::size_t i = 0; i < kWidth; ++i) {
      EXPECT_NEAR(exact[t * kWidth + i], sum[i], 1e-5);
      EXPECT_EQ(rounded[t * kWidth + i].bits, to_bfloat16(static_cast<float>(rounded_sum[i])).bits);
    }
  }
}

}  // namespace
}  // namespace inkstone::model
