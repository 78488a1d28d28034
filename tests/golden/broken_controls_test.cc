// SPDX-License-Identifier: Apache-2.0
// Deliberately wrong models: each must leave the golden tolerance, or the goldens guard nothing.
#include <cstring>

#include "tests/golden/golden_cases.h"

namespace inkstone::testing {
namespace {

// Difference of the changed model from the golden logits of a case.
double distance(const MiniModel& mini, const std::string& name, std::vector<std::int64_t> chunks = {4096}) {
  const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
  model::ProbeRequest request = request_for(name, ids, std::move(chunks), 0);
  request.all_choices = false;
  return relative_difference(mini.run(request).logits, goldens().floats(name + ".logits_last"));
}

// A changed copy of every layer's relative projection.
class ChangedBias {
 public:
  ChangedBias(MiniModel& mini, std::int64_t shift, bool keep) {
    for (model::BlockWeights& layer : mini.weights.layers) {
      TensorView& proj = layer.attention.rel_proj;
      std::vector<BFloat16>& copy = copies_.emplace_back(static_cast<std::size_t>(proj.shape.num_elements()));
      const std::int64_t extent = proj.shape[1];
      for (std::int64_t m = 0; keep && m < proj.rows(); ++m) {
        for (std::int64_t e = shift; e < extent; ++e) {
          copy[static_cast<std::size_t>(m * extent + e)] = proj.row<BFloat16>(m)[e - shift];
        }
      }
      proj = TensorView(copy.data(), ScalarType::kBF16, proj.shape);
    }
  }

 private:
  std::vector<std::vector<BFloat16>> copies_;
};

class ForgetsConvolutionState : public reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  void short_conv(const ops::ShortConvArgs& args, ops::Stream& stream) override {
    std::memset(args.state.storage.data, 0, static_cast<std::size_t>(args.state.storage.bytes()));
    ReferenceBackend::short_conv(args, stream);
  }
};

// Normalises over the routed experts alone and gives the shared ones their sigmoid.
class LeavesSinksOut : public reference::ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  void route(const ops::RouteArgs& args, ops::Stream& stream) override {
    ReferenceBackend::route(args, stream);
    const std::int64_t chosen = args.experts.shape[1];
    const float scale = args.route_scale * *args.global_scale.as<float>();
    for (std::int64_t t = 0; t < args.weights.rows(); ++t) {
      auto* weights = args.weights.row<float>(t);
      float sum = 0;
      for (std::int64_t i = 0; i < chosen; ++i) sum += weights[i];
      for (std::int64_t i = 0; i < chosen; ++i) weights[i] *= scale / sum;
    }
  }
};

TEST(BrokenControls, TheUnchangedModelPasses) {
  const MiniModel mini;
  EXPECT_LE(distance(mini, "short"), kGoldenTolerance);
}

TEST(BrokenControls, BiasDropped) {
  MiniModel mini;
  const ChangedBias changed(mini, 0, false);
  EXPECT_GT(distance(mini, "short"), kGoldenTolerance);
}

TEST(BrokenControls, BiasShiftedByOne) {
  MiniModel mini;
  const ChangedBias changed(mini, 1, true);
  EXPECT_GT(distance(mini, "short"), kGoldenTolerance);
}

TEST(BrokenControls, WindowOneShortOrOneLong) {
  for (const int change : {-1, 1}) {
    MiniModel mini;
    mini.config.sliding.window += change;
    for (model::BlockWeights& layer : mini.weights.layers) {
      if (layer.shape.window != 0) layer.shape.window += change;
    }
    EXPECT_GT(distance(mini, "needle1k"), kGoldenTolerance) << change;
  }
}

TEST(BrokenControls, TauDropped) {
  MiniModel mini;
  mini.config.log_scaling_floor.reset();
  EXPECT_GT(distance(mini, "needle3k"), kGoldenTolerance);
}

TEST(BrokenControls, ConvolutionStateZeroedAtAChunkBorder) {
  MiniModel mini;
  mini.backend = std::make_unique<ForgetsConvolutionState>(0);
  EXPECT_LE(distance(mini, "short"), kGoldenTolerance);  // no border, nothing forgotten
  EXPECT_GT(distance(mini, "short", {16}), kGoldenTolerance);
}

TEST(BrokenControls, GateAndUpTakenAsHalves) {
  MiniModel mini;
  for (model::BlockWeights& layer : mini.weights.layers) {
    if (!layer.moe) continue;
    // Undo the every-second-row views: the first half of the rows as gate, the second as up.
    GatedMatrix& pair = layer.moe->routed_w13;
    MatrixBank fused = pair.gate;
    fused.row_stride_bytes /= 2;
    pair.gate = fused;
    pair.up = fused;
    pair.up.data = fused.row(0, fused.rows);
  }
  EXPECT_GT(distance(mini, "short"), kGoldenTolerance);
}

TEST(BrokenControls, SinkLogitsLeftOutOfTheNormalisation) {
  MiniModel mini;
  mini.backend = std::make_unique<LeavesSinksOut>(0);
  EXPECT_GT(distance(mini, "short"), kGoldenTolerance);
}

TEST(BrokenControls, MupMissing) {
  MiniModel mini;
  mini.config.logits_divisor = 1;
  EXPECT_GT(distance(mini, "short"), kGoldenTolerance);
}

}  // namespace
}  // namespace inkstone::testing
