// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

namespace inkstone::checkpoint {
namespace {

const std::string kMini = INKSTONE_SOURCE_DIR "/models/inkling-mini";
const std::string kMiniNvfp4 = INKSTONE_SOURCE_DIR "/models/inkling-mini-nvfp4";

TEST(Checkpoint, OpensTheShippedMini) {
  const auto opened = Checkpoint::open(kMini);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->has_mtp());
  EXPECT_TRUE(opened->has_vision());
  EXPECT_TRUE(opened->has_audio());
  EXPECT_EQ(opened->config().num_mtp(), 8);
  EXPECT_EQ(opened->tensor("model.llm.embed.weight").shape, (Shape{2048, 128}));
  const MatrixBank down = opened->matrix("model.llm.layers.2.mlp.experts.w2_weight");
  EXPECT_EQ(down.banks, 16);
  EXPECT_EQ(down.rows, 128);
  EXPECT_EQ(down.columns, 64);
  EXPECT_FALSE(down.quantised());
}

TEST(Checkpoint, GivesGateAndUpAsAlternatingRows) {
  const auto opened = Checkpoint::open(kMini);
  ASSERT_TRUE(opened) << opened.error().message;
  const TensorView fused = opened->tensor("model.llm.layers.0.mlp.w13_dn.weight");
  const GatedMatrix gated = opened->gated("model.llm.layers.0.mlp.w13_dn.weight");
  EXPECT_EQ(gated.gate.rows, 256);
  EXPECT_EQ(gated.gate.row(0, 3), fused.data + 6 * 256);
  EXPECT_EQ(gated.up.row(0, 3), fused.data + 7 * 256);
}

TEST(Checkpoint, OpensTheQuantisedMini) {
  const auto opened = Checkpoint::open(kMiniNvfp4);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_FALSE(opened->gated("model.llm.layers.1.mlp.experts.w13_weight").gate.quantised());
  const GatedMatrix gated = opened->gated("model.llm.layers.2.mlp.experts.w13_weight");
  EXPECT_TRUE(gated.up.quantised());
  EXPECT_EQ(gated.up.columns, 128);
  EXPECT_EQ(gated.up.rows, 64);
  EXPECT_GT(gated.up.scale2[15], 0.0F);
  EXPECT_EQ(gated.up.scale_row(1, 0) - gated.up.scale_row(0, 0), 128 * 8);
}

}  // namespace
}  // namespace inkstone::checkpoint
