// SPDX-License-Identifier: Apache-2.0
// The towers of the model, whole, on each backend: they are the only users of rows of 75 values and of f32
// sums that become BF16.
#include "model/towers.h"

#include <algorithm>
#include <cmath>

#include "tests/conformance/rig.h"

namespace inkstone::conformance {
namespace {

class TowerOps : public Conformance {
 protected:
  // Of the largest value. A stage rounds three times to BF16, and a rounding that falls the other way passes
  // through the stages behind it: four stages, a few units of 2^-8 each. In f32 only the order of the sums
  // differs.
  [[nodiscard]] float tolerance() const {
    return activation() == ScalarType::kBF16 || rounds_inputs(GetParam()) ? 3e-2F : 2e-5F;
  }

  void expect_agreement(const HostTensor& actual, const HostTensor& expected) const {
    float largest = 0;
    for (std::int64_t i = 0; i < expected.size(); ++i) largest = std::max(largest, std::fabs(expected.at(i)));
    EXPECT_TRUE(near(actual, expected, 0, tolerance() * largest));
  }

  // out [rows of the input, width] of a tower on one side.
  template <class Tower>
  static HostTensor run(Side& side, const Tower& tower, const TensorView& in, ScalarType type,
                        std::int64_t width) {
    HostTensor memory(ScalarType::kU8, {tower.workspace_bytes()});
    HostTensor out(type, {in.rows(), width});
    model::Workspace workspace(side.put(memory).data, tower.workspace_bytes());
    const TensorView to = side.put(out);
    tower.run(in, to, workspace, side.stream());
    return side.get(to);
  }
};
INK_CONFORMANCE(TowerOps);

TEST_P(TowerOps, VisionAgreesOverFourStagesAndInPieces) {
  Random random(40);
  const checkpoint::VisionConfig config = {40, 2, 3, 4};
  const std::int64_t shapes[][2] = {{128, 75}, {320, 512}, {192, 5120}, {256, 384}};
  std::vector<HostBank> linear;
  std::vector<HostTensor> norm;
  for (const auto& [rows, columns] : shapes) {
    linear.push_back(random.bf16_bank(1, rows, columns, 1 / std::sqrt(static_cast<float>(columns))));
    norm.push_back(random.tensor(ScalarType::kBF16, {rows}));
  }
  HostTensor patches = random.tensor(activation(), {5, 4800});
  HostTensor results[2];
  for (const int which : {0, 1}) {
    Side& side = which == 0 ? reference() : subject();
    model::VisionWeights weights;
    for (HostBank& bank : linear) weights.linear.push_back(side.put(bank));
    for (HostTensor& weight : norm) weights.norm.push_back(side.put(weight));
    weights.final_norm = weights.norm.back();
    weights.norm.pop_back();
    const auto tower = model::VisionTower::create(config, weights, side.backend(), which == 0 ? 8 : 3);
    ASSERT_TRUE(tower.has_value());
    results[which] = run(side, *tower, side.put(patches), activation(), 256);
  }
  expect_agreement(results[1], results[0]);
}

TEST_P(TowerOps, AudioAgrees) {
  Random random(41);
  HostTensor table = random.tensor(ScalarType::kBF16, {80 * 16, 384});
  HostTensor norm = random.tensor(ScalarType::kBF16, {384});
  HostTensor levels = random.integers({37, 80}, 16);
  HostTensor results[2];
  for (const int which : {0, 1}) {
    Side& side = which == 0 ? reference() : subject();
    const model::AudioWeights weights = {side.put(table), side.put(norm)};
    const auto tower = model::AudioTower::create({80, 16, -7, 2}, weights, side.backend(), 16);
    ASSERT_TRUE(tower.has_value());
    results[which] = run(side, *tower, side.put(levels), activation(), 384);
  }
  expect_agreement(results[1], results[0]);
}

}  // namespace
}  // namespace inkstone::conformance
