// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/verify/against_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/editable_checkpoint.h"
#include "tests/support/hf_layout.h"

namespace inkstone::checkpoint {
namespace {

using test_support::EditableCheckpoint;
using test_support::EditableTensor;
using test_support::TemporaryFolder;
using testing::HasSubstr;

const std::string kMini = INKSTONE_SOURCE_DIR "/models/inkling-mini";
const std::string kMiniNvfp4 = INKSTONE_SOURCE_DIR "/models/inkling-mini-nvfp4";
const std::string kFused = "model.llm.layers.3.mlp.experts.w13_weight";

Result<std::vector<BankDifference>> compare(const std::string& quantised, const std::string& reference) {
  const Checkpoint ours = INK_TRY(Checkpoint::open(quantised));
  const Checkpoint theirs = INK_TRY(Checkpoint::open(reference));
  return compare_with_reference(ours, theirs);
}

// The order in which tensor cores of later GPUs read block scales: tiles of 128 rows by 4 blocks, of which
// row r and block b lie at (r % 32) * 16 + (r / 32) * 4 + b.
void put_in_tiles(EditableTensor& scales) {
  const std::int64_t rows = scales.shape[1];
  const std::int64_t blocks = scales.shape[2];
  std::vector<std::byte> tiled(scales.bytes.size());
  for (std::int64_t expert = 0; expert < scales.shape[0]; ++expert)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t tile = row / 128 * (blocks / 4) + block / 4;
        const std::int64_t within = row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
        tiled[static_cast<std::size_t>(expert * rows * blocks + tile * 512 + within)] =
            scales.bytes[static_cast<std::size_t>((expert * rows + row) * blocks + block)];
      }
  scales.bytes = std::move(tiled);
}

BankDifference find(const std::vector<BankDifference>& found, const std::string& name) {
  return *std::ranges::find(found, name, &BankDifference::name);
}

TEST(AgainstReference, TheShippedTwinHasOnlyTheRoundingOfItsCodes) {
  const auto found = compare(kMiniNvfp4, kMini);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_FALSE(found->empty());
  for (const BankDifference& bank : *found) {
    EXPECT_EQ(bank.beyond, 0) << bank.name;
    EXPECT_GT(bank.relative_error, 0.0) << bank.name;
    EXPECT_LT(bank.relative_error, 0.25) << bank.name;
  }
}

TEST(AgainstReference, BothLayoutsOfGateAndUpAreTheSameWeights) {
  const TemporaryFolder folder;
  const Status saved =
      test_support::resave(kMiniNvfp4, folder / "halves", {.hf_names = true, .hf_config = true});
  ASSERT_TRUE(saved) << saved.error().message;
  const auto rows = compare(kMiniNvfp4, kMini);
  const auto halves = compare(folder / "halves", kMini);
  ASSERT_TRUE(rows && halves);
  EXPECT_EQ(find(*halves, kFused).relative_error, find(*rows, kFused).relative_error);
}

TEST(AgainstReference, ScalesInAnotherOrderAreNoticedThoughTheyLoad) {
  EditableCheckpoint edited = *EditableCheckpoint::load(kMiniNvfp4);
  put_in_tiles(edited.tensors.at(kFused + ".scale"));
  const TemporaryFolder folder;
  ASSERT_TRUE(edited.save(folder / "tiles"));
  const auto found = compare(folder / "tiles", kMini);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_GT(find(*found, kFused).beyond, find(*found, kFused).weights / 100);
  EXPECT_EQ(find(*found, "model.llm.layers.3.mlp.experts.w2_weight").beyond, 0);
}

TEST(AgainstReference, RefusesWhatIsNoReference) {
  const auto coded = compare(kMiniNvfp4, kMiniNvfp4);
  ASSERT_FALSE(coded);
  EXPECT_THAT(coded.error().message, HasSubstr("holds no BF16 weights"));
  const auto plain = compare(kMini, kMini);
  ASSERT_FALSE(plain);
  EXPECT_THAT(plain.error().message, HasSubstr("no NVFP4 weights"));
}

}  // namespace
}  // namespace inkstone::checkpoint
