// SPDX-License-Identifier: Apache-2.0
// The mini saved again in every layout gives the same bits; checkpoints with the real models' ratios run.
#include <cmath>
#include <filesystem>

#include "checkpoint/quantize.h"
#include "tests/golden/golden_cases.h"
#include "tests/support/hf_layout.h"
#include "tests/support/synthetic_checkpoint.h"

namespace inkstone::testing {
namespace {

using test_support::ResaveOptions;
using test_support::TemporaryFolder;

std::string shipped(const std::string& name) { return std::string(INKSTONE_SOURCE_DIR) + "/models/" + name; }

// Logits of the last eight positions of `short`, and of the last row of every head asked for.
model::ProbeResult short_case(const MiniModel& model, std::int64_t mtp_depths) {
  static const std::vector<std::int32_t> ids = goldens().ints("short.input_ids");
  model::ProbeRequest request;
  request.ids = ids;
  request.last = 8;
  request.mtp_depths = mtp_depths;
  return model.run(request);
}

struct Layout {
  std::string name;
  std::string from;
  ResaveOptions options;
};

class SavedAgain : public ::testing::TestWithParam<Layout> {};

TEST_P(SavedAgain, GivesTheSameBits) {
  const Layout& layout = GetParam();
  const TemporaryFolder folder;
  const Status saved = test_support::resave(shipped(layout.from), folder / "model", layout.options);
  ASSERT_TRUE(saved.has_value()) << saved.error().message;
  const std::int64_t depths = layout.options.heads ? 8 : 0;
  const model::ProbeResult expected = short_case(MiniModel(layout.from), depths);
  const MiniModel again(folder / "model");
  EXPECT_EQ(again.checkpoint->has_mtp(), layout.options.heads);
  EXPECT_EQ(again.checkpoint->has_vision(), layout.options.towers && !layout.options.hf.text_only);
  const model::ProbeResult actual = short_case(again, depths);
  EXPECT_EQ(actual.logits, expected.logits);
  for (std::size_t depth = 0; depth < expected.mtp.size(); ++depth) {
    EXPECT_EQ(actual.mtp[depth].last_logits, expected.mtp[depth].last_logits) << depth;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SavedAgain,
    ::testing::Values(
        Layout{"OtherShards", "inkling-mini", {.save = {.shards = 5, .reversed = true}}},
        Layout{"MisalignedShards", "inkling-mini", {.save = {.shards = 2, .misaligned = true}}},
        Layout{"WithoutHeads", "inkling-mini", {.heads = false}},
        Layout{"WithoutTowers", "inkling-mini", {.towers = false}},
        Layout{"HfNames", "inkling-mini", {.hf_names = true}},
        Layout{"HfNamesAndConfig", "inkling-mini", {.hf_names = true, .hf_config = true}},
        Layout{"HfTextOnlyLateNorm",
               "inkling-mini",
               {.hf_names = true, .hf_config = true, .hf = {.text_only = true, .late_embed_norm = true}}},
        Layout{"HfNamesNvfp4", "inkling-mini-nvfp4", {.hf_names = true, .hf_config = true}},
        Layout{"NvfpFourOtherShards", "inkling-mini-nvfp4", {.save = {.shards = 3, .reversed = true}}}),
    [](const auto& info) { return info.param.name; });

class RealRatios : public ::testing::TestWithParam<test_support::Precision> {};

TEST_P(RealRatios, LoadAndRunWithTheSameBitsInChunks) {
  const TemporaryFolder folder;
  const Status written = test_support::write_synthetic(
      test_support::real_ratios(), {.precision = GetParam(), .shards = 2}, folder / "model");
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const MiniModel model(folder / "model");
  EXPECT_EQ(model.config.global.kv_heads, 8);
  EXPECT_EQ(model.config.sliding.kv_heads, 16);
  EXPECT_EQ(model.config.dense_layers, 2);
  EXPECT_EQ(model.weights.layers[2].moe->gate.rows, 258);
  EXPECT_FALSE(model.weights.layers[2].moe->routed_w2.quantised());
  EXPECT_EQ(model.weights.layers[3].moe->routed_w2.quantised(),
            GetParam() == test_support::Precision::kNvfp4);
  std::vector<std::int32_t> ids(80);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 37 % 500);
  model::ProbeRequest request;
  request.ids = ids;
  request.last = 8;
  request.mtp_depths = 8;
  const model::ProbeResult whole = model.run(request);
  for (const float logit : whole.logits) ASSERT_TRUE(std::isfinite(logit));
  request.chunks = {7};
  const model::ProbeResult parts = model.run(request);
  EXPECT_EQ(parts.logits, whole.logits);
  EXPECT_EQ(parts.mtp.back().last_logits, whole.mtp.back().last_logits);
}

INSTANTIATE_TEST_SUITE_P(Precisions, RealRatios,
                         ::testing::Values(test_support::Precision::kBf16, test_support::Precision::kNvfp4),
                         [](const auto& info) {
                           return info.param == test_support::Precision::kBf16 ? "Bf16" : "Nvfp4";
                         });

// Our quantised mini is as near to the BF16 goldens as the shipped NVFP4 twin, which came from another
// quantiser.
TEST(QuantizedMini, StaysWithinTheDistanceOfTheShippedTwin) {
  const TemporaryFolder folder;
  const auto quantized = checkpoint::quantize_nvfp4(shipped("inkling-mini"), folder / "model", {});
  ASSERT_TRUE(quantized.has_value()) << quantized.error().message;
  const MiniModel ours(folder / "model");
  for (const std::string name : {"short", "story"}) {
    const std::vector<std::int32_t> ids = goldens().ints(name + ".input_ids");
    model::ProbeRequest request;
    request.ids = ids;
    request.last = 8;
    const std::vector<float> expected = goldens().floats(name + ".logits_last");
    const std::span<const float> last =
        std::span(expected).last(8 * static_cast<std::size_t>(ours.config.valid_vocabulary));
    const double distance = relative_difference(ours.run(request).logits, last);
    const double twin = relative_difference(goldens().floats("nvfp4." + name + ".logits_last"), last);
    RecordProperty(name + "_ours_over_twin", std::to_string(distance / twin));
    EXPECT_LE(distance, twin + kGoldenTolerance) << name;
  }
}

}  // namespace
}  // namespace inkstone::testing
