// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/quantize.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/nvfp4.h"
#include "checkpoint/quant_config.h"
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

std::uint8_t code_at(const MatrixBank& bank, std::int64_t expert, std::int64_t row, std::int64_t column) {
  const auto byte = std::to_integer<unsigned>(bank.row(expert, row)[column / 2]);
  return static_cast<std::uint8_t>(column % 2 == 0 ? byte & 15 : byte >> 4);
}

// Distance of the weight to the value of its code, less the distance to the nearest value there is; 0 is
// right.
double excess(double weight, double step, std::uint8_t code) {
  double nearest = INFINITY;
  for (std::uint8_t other = 0; other < 16; ++other)
    nearest = std::min(nearest, std::abs(weight - e2m1_to_float(other) * step));
  return std::abs(weight - e2m1_to_float(code) * step) - nearest;
}

// The number of weights whose code is not the nearest under its scale. Step and quotient are rounded to f32
// once each, so a midpoint is met with a relative error of up to 2^-23, and the two neighbours differ in
// distance by twice that.
std::int64_t badly_coded(const MatrixBank& coded, const MatrixBank& plain) {
  std::int64_t wrong = 0;
  for (std::int64_t expert = 0; expert < coded.banks; ++expert)
    for (std::int64_t row = 0; row < coded.rows; ++row) {
      const auto* weights = reinterpret_cast<const BFloat16*>(plain.row(expert, row));
      for (std::int64_t column = 0; column < coded.columns; ++column) {
        const double scale = e4m3_to_float(coded.scale_row(expert, row)[column / 16]);
        const double step = scale * coded.scale2[expert];
        const double weight = to_float(weights[column]);
        const double rounding = std::ldexp(std::abs(weight), -22);
        if (excess(weight, step, code_at(coded, expert, row, column)) > rounding) ++wrong;
      }
    }
  return wrong;
}

class QuantizedMini : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder();
    const Status done = quantize_nvfp4(kMini, *folder_ / "out");
    ASSERT_TRUE(done) << done.error().message;
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string out() { return *folder_ / "out"; }

 private:
  static TemporaryFolder* folder_;
};
TemporaryFolder* QuantizedMini::folder_ = nullptr;

// The shipped twin was made by the vendor's rules.
TEST_F(QuantizedMini, HasTheBytesOfTheShippedTwin) {
  const auto ours = EditableCheckpoint::load(out());
  const auto theirs = EditableCheckpoint::load(kMiniNvfp4);
  ASSERT_TRUE(ours && theirs);
  ASSERT_EQ(ours->tensors.size(), theirs->tensors.size());
  for (const auto& [name, tensor] : theirs->tensors) {
    const EditableTensor& mine = ours->tensors.at(name);
    EXPECT_EQ(mine.dtype, tensor.dtype) << name;
    EXPECT_EQ(mine.shape, tensor.shape) << name;
    if (name.ends_with(".input_amax")) continue;
    EXPECT_EQ(mine.bytes, tensor.bytes) << name;
  }
}

TEST_F(QuantizedMini, GivesEveryWeightTheNearestCodeUnderItsScale) {
  const auto coded = Checkpoint::open(out());
  const auto plain = Checkpoint::open(kMini);
  ASSERT_TRUE(coded && plain);
  for (int layer = 2; layer < 8; ++layer) {
    const std::string prefix = fmt::format("model.llm.layers.{}.mlp.experts.", layer);
    EXPECT_EQ(badly_coded(coded->matrix(prefix + "w2_weight"), plain->matrix(prefix + "w2_weight")), 0);
    const GatedMatrix coded_pair = coded->gated(prefix + "w13_weight");
    const GatedMatrix plain_pair = plain->gated(prefix + "w13_weight");
    EXPECT_EQ(badly_coded(coded_pair.gate, plain_pair.gate), 0);
    EXPECT_EQ(badly_coded(coded_pair.up, plain_pair.up), 0);
    // Broken control: halves exchanged.
    EXPECT_GT(badly_coded(coded_pair.gate, plain_pair.up), 1000);
  }
}

TEST_F(QuantizedMini, LeavesTheFirstMixtureAndAllElseInBf16) {
  const auto opened = Checkpoint::open(out());
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_FALSE(opened->matrix("model.llm.layers.1.mlp.experts.w2_weight").quantised());
  EXPECT_TRUE(opened->matrix("model.llm.layers.2.mlp.experts.w2_weight").quantised());
  EXPECT_TRUE(opened->has_mtp() && opened->has_vision() && opened->has_audio());
}

TEST_F(QuantizedMini, ListsTheExclusionsOfTheShippedTwin) {
  const auto ours = read_quant_config(out());
  const auto theirs = read_quant_config(kMiniNvfp4);
  ASSERT_TRUE(ours && theirs);
  EXPECT_EQ((*ours)->exclude_modules, (*theirs)->exclude_modules);
}

TEST_F(QuantizedMini, BringsEveryOtherFileAlong) {
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "processor_config.json"})
    EXPECT_EQ(test_support::read_bytes(out() + "/" + name), test_support::read_bytes(kMini + "/" + name))
        << name;
}

// A calibrated amax is one that was seen; ours is a bound, so it must not lie below.
TEST_F(QuantizedMini, BoundsTheInputsFromAbove) {
  const auto ours = Checkpoint::open(out());
  const auto theirs = Checkpoint::open(kMiniNvfp4);
  ASSERT_TRUE(ours && theirs);
  for (int layer = 2; layer < 8; ++layer) {
    const std::string prefix = fmt::format("model.llm.layers.{}.mlp.experts.", layer);
    const auto amax = [](const MatrixBank& bank) { return to_float(*bank.input_amax); };
    const float seen13 = amax(theirs->gated(prefix + "w13_weight").gate);
    const float seen2 = amax(theirs->matrix(prefix + "w2_weight"));
    EXPECT_GE(amax(ours->gated(prefix + "w13_weight").gate), seen13);
    EXPECT_GE(amax(ours->matrix(prefix + "w2_weight")), seen2);
    EXPECT_LT(amax(ours->matrix(prefix + "w2_weight")), 6 * seen2);
  }
}

TEST_F(QuantizedMini, IsTheSameFromHfNamesAndInSmallShards) {
  const TemporaryFolder folder;
  test_support::ResaveOptions hf;
  hf.hf_names = hf.hf_config = true;
  ASSERT_TRUE(test_support::resave(kMini, folder / "hf", hf));
  QuantizeOptions options;
  options.shard_bytes = 1 << 20;
  options.threads = 1;
  std::int64_t done = 0, total = 0;
  options.progress = [&](std::int64_t done_bytes, std::int64_t total_bytes) {
    EXPECT_GE(done_bytes, done);
    done = done_bytes;
    total = total_bytes;
  };
  const Status status = quantize_nvfp4(folder / "hf", folder / "out", options);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(done, total);
  const auto from_hf = EditableCheckpoint::load(folder / "out");
  const auto from_native = EditableCheckpoint::load(out());
  ASSERT_TRUE(from_hf && from_native);
  ASSERT_EQ(from_hf->tensors.size(), from_native->tensors.size());
  for (const auto& [name, tensor] : from_native->tensors)
    EXPECT_EQ(from_hf->tensors.at(name).bytes, tensor.bytes) << name;
  const auto opened = Checkpoint::open(folder / "out");
  EXPECT_TRUE(opened) << opened.error().message;
}

TEST(Quantize, RefusesAFolderThatExists) {
  const TemporaryFolder folder;
  const Status status = quantize_nvfp4(kMini, folder.path() + "/");
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("exists already"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Quantize, RefusesAnInputThatIsQuantised) {
  const TemporaryFolder folder;
  const Status status = quantize_nvfp4(kMiniNvfp4, folder / "out");
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              HasSubstr("model.llm.layers.2.mlp.experts.w13_weight is NVFP4 already"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Quantize, LeavesNothingBehindWhenItCannotRead) {
  const TemporaryFolder folder;
  EXPECT_FALSE(quantize_nvfp4(folder / "absent", folder / "out"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Quantize, LeavesNoOutputWhenItIsCutShort) {
  const TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    QuantizeOptions options;
    options.threads = 1;
    options.progress = [](std::int64_t done, std::int64_t total) {
      if (2 * done > total) _exit(7);
    };
    (void)quantize_nvfp4(kMini, folder / "out", options);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(EncodeRow, KeepsZerosAndSigns) {
  std::array<BFloat16, 16> row{};
  std::array<std::uint8_t, 8> codes{};
  std::array<std::uint8_t, 1> scale{};
  encode_row(row, 1, codes, scale);
  EXPECT_EQ(scale[0], 0);
  EXPECT_THAT(codes, testing::Each(0));
  row[0] = to_bfloat16(-6);
  row[1] = to_bfloat16(0.25F);  // the middle between codes 0 and 1: the smaller one
  row[2] = to_bfloat16(0.75F);  // between 1 and 2
  encode_row(row, 1, codes, scale);
  EXPECT_EQ(e4m3_to_float(scale[0]), 1);
  EXPECT_EQ(codes[0], 0x0f);
  EXPECT_EQ(codes[1], 0x01);
}

TEST(EncodeRow, SpendsTheWholeRangeOfTheScales) {
  std::array<BFloat16, 16> row{};
  row[5] = to_bfloat16(-3.0F);
  std::array<std::uint8_t, 8> codes{};
  std::array<std::uint8_t, 1> scale{};
  encode_row(row, second_level_scale(3.0F), codes, scale);
  EXPECT_EQ(e4m3_to_float(scale[0]), 448);
  EXPECT_EQ(codes[2], 0xf0);
  EXPECT_EQ(second_level_scale(0), 1);
}

}  // namespace
}  // namespace inkstone::checkpoint
