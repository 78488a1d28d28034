// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "checkpoint/expected_tensors.h"
#include "tests/support/editable_checkpoint.h"
#include "tests/support/hf_layout.h"
#include "tests/support/synthetic_checkpoint.h"

namespace inkstone::checkpoint {
namespace {

using test_support::ResaveOptions;
using test_support::TemporaryFolder;

const std::string kMini = INKSTONE_SOURCE_DIR "/models/inkling-mini";
const std::string kMiniNvfp4 = INKSTONE_SOURCE_DIR "/models/inkling-mini-nvfp4";

// The same weights, row by row; divisors of compressed-tensors come back within one rounding.
testing::AssertionResult same_bank(const MatrixBank& a, const MatrixBank& b) {
  if (a.type != b.type || a.banks != b.banks || a.rows != b.rows || a.columns != b.columns)
    return testing::AssertionFailure() << "shapes differ";
  const auto row_bytes =
      static_cast<std::size_t>(a.quantised() ? a.columns / 2 : a.columns * size_bytes(a.type));
  for (std::int64_t bank = 0; bank < a.banks; ++bank) {
    for (std::int64_t row = 0; row < a.rows; ++row) {
      if (std::memcmp(a.row(bank, row), b.row(bank, row), row_bytes) != 0)
        return testing::AssertionFailure() << "row " << row << " of matrix " << bank << " differs";
      if (a.quantised() && std::memcmp(a.scale_row(bank, row), b.scale_row(bank, row), row_bytes / 8) != 0)
        return testing::AssertionFailure() << "scales of row " << row << " of matrix " << bank << " differ";
    }
    if (a.quantised() && std::abs(a.scale2[bank] - b.scale2[bank]) > 1.2e-7F * std::abs(a.scale2[bank]))
      return testing::AssertionFailure() << "scale2 " << bank << " differs";
  }
  if (a.quantised() && to_float(*a.input_amax) != to_float(*b.input_amax))
    return testing::AssertionFailure() << "input_amax differs";
  return testing::AssertionSuccess();
}

testing::AssertionResult same_weight(const Checkpoint& a, const Checkpoint& b,
                                     const ExpectedTensor& expected) {
  if (is_gated(expected.role)) {
    const GatedMatrix left = a.gated(expected.name);
    const GatedMatrix right = b.gated(expected.name);
    const auto gate = same_bank(left.gate, right.gate);
    return gate ? same_bank(left.up, right.up) : gate;
  }
  if (may_be_quantised(expected.role)) return same_bank(a.matrix(expected.name), b.matrix(expected.name));
  const TensorView left = a.tensor(expected.name);
  const TensorView right = b.tensor(expected.name);
  if (!(left.shape == right.shape) || left.type != right.type)
    return testing::AssertionFailure() << "shapes or types differ";
  if (std::memcmp(left.data, right.data, static_cast<std::size_t>(left.bytes())) != 0)
    return testing::AssertionFailure() << "bytes differ";
  return testing::AssertionSuccess();
}

// Opens `from` saved again as `options` say; every weight that is left must be the one of `from`.
void expect_same_after(const std::string& from, const ResaveOptions& options) {
  const TemporaryFolder folder;
  const Status saved = test_support::resave(from, folder / "m", options);
  ASSERT_TRUE(saved) << saved.error().message;
  const auto original = Checkpoint::open(from);
  const auto again = Checkpoint::open(folder / "m");
  ASSERT_TRUE(original) << original.error().message;
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->has_mtp(), options.heads);
  EXPECT_EQ(again->config().num_mtp(), options.heads ? 8 : 0);
  EXPECT_EQ(again->has_vision(), options.towers && !options.hf.text_only);
  EXPECT_EQ(again->config().vision.has_value(), again->has_vision());
  for (const ExpectedTensor& expected : expected_tensors(again->config()))
    EXPECT_TRUE(same_weight(*original, *again, expected)) << expected.name;
}

ResaveOptions with(const std::function<void(ResaveOptions&)>& change) {
  ResaveOptions options;
  change(options);
  return options;
}

TEST(Checkpoint, OpensTheShippedMini) {
  const auto opened = Checkpoint::open(kMini);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->has_mtp() && opened->has_vision() && opened->has_audio());
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
  EXPECT_EQ(gated.up.scale_row(0, 0) - gated.gate.scale_row(0, 0), 8);
}

// Broken control of the comparison: gate and up exchanged.
TEST(Checkpoint, TellsGateFromUp) {
  const auto opened = Checkpoint::open(kMini);
  ASSERT_TRUE(opened);
  const GatedMatrix gated = opened->gated("model.llm.layers.2.mlp.experts.w13_weight");
  EXPECT_FALSE(same_bank(gated.gate, gated.up));
}

TEST(Layouts, OtherShardBordersAndOrdersAreTheSame) {
  expect_same_after(kMini, with([](ResaveOptions& o) { o.save.shards = 5; }));
  expect_same_after(kMini, with([](ResaveOptions& o) {
                      o.save.shards = 3;
                      o.save.reversed = true;
                    }));
  expect_same_after(kMiniNvfp4, with([](ResaveOptions& o) { o.save.shards = 4; }));
}

TEST(Layouts, AFolderWithoutIndexIsTheSame) {
  expect_same_after(kMini, with([](ResaveOptions& o) { o.save.index = false; }));
}

TEST(Layouts, SmallMisalignedFilesAreTheSame) {
  expect_same_after(kMini, with([](ResaveOptions& o) { o.save.misaligned = true; }));
}

TEST(Layouts, WithoutHeadsAndTowersTheRestIsTheSame) {
  expect_same_after(kMini, with([](ResaveOptions& o) { o.heads = false; }));
  expect_same_after(kMini, with([](ResaveOptions& o) { o.towers = false; }));
  expect_same_after(kMiniNvfp4, with([](ResaveOptions& o) { o.heads = o.towers = false; }));
}

TEST(Layouts, HfModuleNamesAreTheSame) {
  const auto hf = [](ResaveOptions& o) { o.hf_names = o.hf_config = true; };
  expect_same_after(kMini, with(hf));
  expect_same_after(kMiniNvfp4, with(hf));
  for (const char* prefix : {"mtp.", "model.mtp."})
    expect_same_after(kMini, with([&](ResaveOptions& o) {
                        hf(o);
                        o.hf.mtp_prefix = prefix;
                      }));
}

TEST(Layouts, EitherDialectGoesWithEitherNaming) {
  expect_same_after(kMini, with([](ResaveOptions& o) { o.hf_names = true; }));
  expect_same_after(kMini, with([](ResaveOptions& o) { o.hf_config = true; }));
}

TEST(Layouts, TheTextOnlyPrefixAndTheLaterEmbedNormAreTheSame) {
  expect_same_after(kMini, with([](ResaveOptions& o) { o.hf_names = o.hf.text_only = true; }));
  expect_same_after(kMini, with([](ResaveOptions& o) { o.hf_names = o.hf.late_embed_norm = true; }));
  expect_same_after(kMini, with([](ResaveOptions& o) {
                      o.hf_names = o.hf.text_only = o.hf.late_embed_norm = true;
                      o.heads = false;
                    }));
}

TEST(Layouts, ConvolutionsSavedInF32AreTheSame) {
  expect_same_after(kMini, with([](ResaveOptions& o) { o.wide_convolutions = true; }));
  expect_same_after(kMini, with([](ResaveOptions& o) { o.wide_convolutions = o.hf_names = true; }));
}

TEST(Layouts, CompressedTensorsAreTheSame) {
  expect_same_after(kMiniNvfp4, with([](ResaveOptions& o) { o.compressed_tensors = true; }));
  expect_same_after(kMiniNvfp4, with([](ResaveOptions& o) { o.compressed_tensors = o.hf_names = true; }));
}

TEST(Layouts, CompressedTensorsMayLackTheInputsScale) {
  auto checkpoint = test_support::EditableCheckpoint::load(kMiniNvfp4);
  ASSERT_TRUE(checkpoint);
  test_support::to_compressed_tensors(*checkpoint);
  std::erase_if(checkpoint->tensors,
                [](const auto& entry) { return entry.first.ends_with(".input_global_scale"); });
  const TemporaryFolder folder;
  ASSERT_TRUE(checkpoint->save(folder / "m"));
  const auto opened = Checkpoint::open(folder / "m");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->matrix("model.llm.layers.2.mlp.experts.w2_weight").input_amax, nullptr);
}

TEST(Layouts, TheNormAfterEachHeadIsReadWhereItIsSwitchedOn) {
  auto checkpoint = test_support::EditableCheckpoint::load(kMini);
  ASSERT_TRUE(checkpoint);
  std::string& config = checkpoint->texts.at("config.json");
  const std::string key = "\"chain_hidden_post_norm\": false";
  config.replace(config.find(key), key.size(), "\"chain_hidden_post_norm\": true");
  const TemporaryFolder folder;
  ASSERT_TRUE(checkpoint->save(folder / "without"));
  const auto without = Checkpoint::open(folder / "without");
  ASSERT_FALSE(without);
  EXPECT_THAT(without.error().message, testing::HasSubstr("tensor model.mtp.chain_norm.weight is missing"));
  checkpoint->tensors["model.mtp.chain_norm.weight"] = checkpoint->tensors.at("model.llm.norm.weight");
  ASSERT_TRUE(checkpoint->save(folder / "with"));
  const auto opened = Checkpoint::open(folder / "with");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->config().mtp_chain_norm);
  EXPECT_EQ(opened->tensor("model.mtp.chain_norm.weight").shape, (Shape{128}));
}

// The tensors of a layer decide whether it is dense (`spec/model.md` 2.2).
TEST(Layouts, TensorsDecideHowManyLayersAreDense) {
  auto checkpoint = test_support::EditableCheckpoint::load(kMini);
  ASSERT_TRUE(checkpoint);
  std::string& config = checkpoint->texts.at("config.json");
  const std::string key = "\"dense_mlp_idx\": 1";
  config.replace(config.find(key), key.size(), "\"dense_mlp_idx\": 0");
  const TemporaryFolder folder;
  ASSERT_TRUE(checkpoint->save(folder / "m"));
  const auto opened = Checkpoint::open(folder / "m");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->config().dense_layers, 1);
}

TEST(Synthetic, RealRatiosOpenInBothPrecisions) {
  const TemporaryFolder folder;
  const test_support::SyntheticModel model = test_support::real_ratios();
  for (const auto precision : {test_support::Precision::kBf16, test_support::Precision::kNvfp4}) {
    const bool quantised = precision == test_support::Precision::kNvfp4;
    const std::string path = folder / (quantised ? "nvfp4" : "bf16");
    ASSERT_TRUE(test_support::write_synthetic(model, {precision, false, 1, 2}, path));
    const auto opened = Checkpoint::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->tensor("model.llm.layers.2.mlp.gate.weight").shape[0], 258);
    EXPECT_EQ(opened->tensor("model.llm.layers.3.attn.wk_dv.weight").shape[0], 8 * 16);
    EXPECT_EQ(opened->tensor("model.llm.layers.4.attn.wk_dv.weight").shape[0], 16 * 16);
    EXPECT_EQ(opened->config().dense_layers, 2);
    EXPECT_FALSE(opened->matrix("model.llm.layers.2.mlp.experts.w2_weight").quantised());
    EXPECT_EQ(opened->matrix("model.llm.layers.3.mlp.experts.w2_weight").quantised(), quantised);
  }
}

}  // namespace
}  // namespace inkstone::checkpoint
