// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inspect.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "tests/support/editable_checkpoint.h"
#include "tests/support/synthetic_checkpoint.h"

namespace inkstone::checkpoint {
namespace {

using test_support::Precision;
using test_support::SyntheticModel;
using test_support::TemporaryFolder;

Inspection inspect_sparse(const SyntheticModel& model, Precision precision, int shards) {
  const TemporaryFolder folder;
  const Status written = test_support::write_synthetic(model, {precision, true, 1, shards}, folder / "model");
  EXPECT_TRUE(written) << written.error().message;
  auto inspection = inspect(folder / "model");
  EXPECT_TRUE(inspection) << inspection.error().message;
  return inspection.value_or(Inspection{});
}

// The published counts of the four releases (`spec/checkpoint.md` 1).
TEST(Inspect, CountsTheLargeQuantisedRelease) {
  const Inspection found = inspect_sparse(test_support::inkling(), Precision::kNvfp4, 33);
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.files, 34);
  EXPECT_EQ(found.tensors.size(), 2056U);
  EXPECT_EQ(found.bytes, 592'005'369'312);
  EXPECT_EQ(found.by_dtype.at("BF16").elements, 39'160'185'992);
  EXPECT_EQ(found.by_dtype.at("F32").elements, 48'704);
  EXPECT_EQ(found.by_dtype.at("U8").bytes, 456'608'710'656);
  EXPECT_EQ(found.by_dtype.at("F8_E4M3").bytes, 57'076'088'832);
  EXPECT_EQ(found.by_dtype.at("I64").elements, 378);
  EXPECT_EQ(found.quantised_layers.size(), 63U);
  EXPECT_EQ(found.quantised_layers.front(), 3);
}

TEST(Inspect, CountsTheLargeRelease) {
  const Inspection found = inspect_sparse(test_support::inkling(), Precision::kBf16, 108);
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.tensors.size(), 1552U);
  EXPECT_EQ(found.bytes, 1'904'755'280'148);
  EXPECT_EQ(found.by_dtype.at("BF16").elements, 952'377'607'178);
  EXPECT_EQ(found.by_dtype.at("F32").elements, 16'448);
  EXPECT_TRUE(found.quantised_layers.empty());
}

TEST(Inspect, CountsTheSmallRelease) {
  const Inspection found = inspect_sparse(test_support::inkling_small(), Precision::kBf16, 32);
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.files, 33);
  EXPECT_EQ(found.tensors.size(), 1048U);
  EXPECT_EQ(found.bytes, 531'912'898'740);
}

TEST(Inspect, CountsTheSmallQuantisedRelease) {
  const Inspection found = inspect_sparse(test_support::inkling_small(), Precision::kNvfp4, 9);
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.files, 10);
  EXPECT_EQ(found.tensors.size(), 1360U);
  EXPECT_EQ(found.bytes, 170'733'074'592);
  EXPECT_EQ(found.by_dtype.at("BF16").elements, 14'700'842'072);
  EXPECT_EQ(found.by_dtype.at("F32").elements, 30'248);
  EXPECT_EQ(found.by_dtype.at("U8").bytes, 125'627'793'408);
  EXPECT_EQ(found.by_dtype.at("F8_E4M3").bytes, 15'703'474'176);
  EXPECT_EQ(found.by_dtype.at("I64").elements, 234);
}

// Nothing is read, widened or touched beyond the small tensors: 592 GB open on any machine.
TEST(Checkpoint, OpensTheLargeQuantisedReleaseOnASmallHost) {
  const TemporaryFolder folder;
  ASSERT_TRUE(
      test_support::write_synthetic(test_support::inkling(), {Precision::kNvfp4, true, 1, 33}, folder / "m"));
  const auto opened = Checkpoint::open(folder / "m");
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->tensor_bytes(), 592'005'369'312);
  const MatrixBank up = opened->gated("model.llm.layers.65.mlp.experts.w13_weight").up;
  EXPECT_EQ(up.banks, 256);
  EXPECT_EQ(up.rows, 3072);
  EXPECT_EQ(up.columns, 6144);
  EXPECT_EQ(opened->tensor("model.llm.layers.5.attn.wk_dv.weight").shape, (Shape{1024, 6144}));
  EXPECT_EQ(opened->tensor("model.llm.layers.6.attn.wk_dv.weight").shape, (Shape{2048, 6144}));
}

TEST(Inspect, ShowsWhatIsThereAndSaysWhyItWouldNotOpen) {
  const TemporaryFolder folder;
  auto checkpoint = test_support::EditableCheckpoint::load(INKSTONE_SOURCE_DIR "/models/inkling-mini");
  ASSERT_TRUE(checkpoint);
  checkpoint->tensors.erase("model.llm.norm.weight");
  ASSERT_TRUE(checkpoint->save(folder / "m"));
  const auto found = inspect(folder / "m");
  ASSERT_TRUE(found);
  EXPECT_NE(found->problem.find("tensor model.llm.norm.weight is missing"), std::string::npos)
      << found->problem;
  EXPECT_EQ(found->tensors.size(), checkpoint->tensors.size());
}

}  // namespace
}  // namespace inkstone::checkpoint
