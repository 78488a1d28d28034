// SPDX-License-Identifier: Apache-2.0
// Products with the kernels of every instruction set that runs here.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"

namespace inkstone::cpu {
namespace {

// Each instruction set in turn; the best one again afterwards.
template <class Body>
void for_instruction_sets(const Body& body) {
  for (const std::string& set : instruction_sets()) {
    SCOPED_TRACE(set);
    ASSERT_TRUE(choose_instruction_set(set));
    body();
  }
  ASSERT_TRUE(choose_instruction_set(""));
}

class Nvfp4Weight {
 public:
  Nvfp4Weight(std::int64_t rows, std::int64_t columns)
      : codes_(static_cast<std::size_t>(rows * columns / 2)),
        scales_(static_cast<std::size_t>(rows * columns / 16)) {
    std::mt19937 random(1);
    for (std::uint8_t& pair : codes_) pair = static_cast<std::uint8_t>(random());
    for (std::uint8_t& scale : scales_) scale = static_cast<std::uint8_t>(0x30 + random() % 16);
    bank_.data = reinterpret_cast<const std::byte*>(codes_.data());
    bank_.type = ScalarType::kU8;
    bank_.rows = rows;
    bank_.columns = columns;
    bank_.row_stride_bytes = columns / 2;
    bank_.scales = scales_.data();
    bank_.scale_row_stride_bytes = columns / 16;
    bank_.scale2 = &factor_;
  }
  std::uint8_t& scale(std::int64_t row, std::int64_t block) {
    return scales_[static_cast<std::size_t>(row * bank_.columns / 16 + block)];
  }
  [[nodiscard]] const MatrixBank& bank() const { return bank_; }

 private:
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
  float factor_ = 0.125F;
  MatrixBank bank_;
};

std::vector<float> random_floats(std::int64_t count) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& value : made) value = normal(random);
  return made;
}

std::vector<float> multiply(const MatrixBank& weight, std::vector<float> x, std::int64_t rows,
                            bool rounds = false) {
  CpuBackend backend(1);
  if (rounds) backend.round_activations();
  const auto stream = backend.make_stream();
  std::vector<float> out(static_cast<std::size_t>(rows * weight.rows));
  backend.linear({.x = {x.data(), ScalarType::kF32, {rows, weight.columns}},
                  .weights = {&weight, 1},
                  .out = {out.data(), ScalarType::kF32, {rows, weight.rows}}},
                 *stream);
  return out;
}

// The format has one not-a-number; read as a number it would be 480.
TEST(Nvfp4Product, AScaleThatIsNoNumberGivesNoNumberInItsRowOnly) {
  for_instruction_sets([] {
    for (const std::int64_t columns : {48, 512}) {
      Nvfp4Weight weight(40, columns);
      weight.scale(3, 0) = 0x7F;
      weight.scale(38, columns / 16 - 1) = 0xFF;
      weight.scale(20, 1) = 0x7E;  // 448, the largest
      for (const std::int64_t rows : {1, 2, 7, 40}) {
        const std::vector<float> out = multiply(weight.bank(), random_floats(rows * columns), rows);
        for (std::size_t i = 0; i < out.size(); ++i)
          EXPECT_EQ(std::isnan(out[i]), i % 40 == 3 || i % 40 == 38) << rows << " rows, output " << i;
      }
    }
  });
}

std::vector<float> gated(const GatedMatrix& weight, std::int64_t rows, bool rounds = false) {
  CpuBackend backend(1);
  if (rounds) backend.round_activations();
  const auto stream = backend.make_stream();
  std::vector<float> x = random_floats(rows * weight.gate.columns);
  std::vector<float> out(static_cast<std::size_t>(rows * weight.gate.rows));
  backend.gated_linear({.x = {x.data(), ScalarType::kF32, {rows, weight.gate.columns}},
                        .weight = weight,
                        .out = {out.data(), ScalarType::kF32, {rows, weight.gate.rows}}},
                       *stream);
  return out;
}

// Rows of gate and up one after the other, read as one weight, and the same rows in two halves.
TEST(GatedProduct, AlternatingRowsAndHalvesGiveTheSameBits) {
  constexpr std::int64_t kRows = 2 * 37, kColumns = 96;
  std::vector<BFloat16> alternating(static_cast<std::size_t>(kRows * kColumns));
  std::vector<BFloat16> halves(alternating.size());
  const std::vector<float> values = random_floats(kRows * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i) alternating[i] = to_bfloat16(values[i]);
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::memcpy(halves.data() + (row / 2 + row % 2 * kRows / 2) * kColumns,
                alternating.data() + row * kColumns, kColumns * sizeof(BFloat16));
  }
  const MatrixBank a = MatrixBank::of({alternating.data(), ScalarType::kBF16, {kRows, kColumns}});
  const MatrixBank h = MatrixBank::of({halves.data(), ScalarType::kBF16, {kRows, kColumns}});
  for_instruction_sets([&] {
    for (const std::int64_t rows : {1, 2, 5, 20}) {
      for (const bool rounds : {false, true}) {
        EXPECT_EQ(gated({a.every(2, 0), a.every(2, 1)}, rows, rounds),
                  gated({h.slice_rows(0, kRows / 2), h.slice_rows(kRows / 2, kRows / 2)}, rows, rounds))
            << rows << (rounds ? " rounded" : "");
      }
    }
  });
}

// Kernels for one, few and many rows, and for few and many columns.
void expect_bits_of_single_rows(std::int64_t outputs, std::int64_t columns, bool rounds) {
  constexpr std::int64_t kRows = 45;
  const std::vector<float> values = random_floats(outputs * columns);
  std::vector<BFloat16> weights(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) weights[i] = to_bfloat16(values[i]);
  const MatrixBank weight = MatrixBank::of({weights.data(), ScalarType::kBF16, {outputs, columns}});
  const std::vector<float> x = random_floats(kRows * columns);
  const std::vector<float> all = multiply(weight, x, kRows, rounds);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::vector<float> one(x.begin() + row * columns, x.begin() + (row + 1) * columns);
    const std::vector<float> expected(all.begin() + row * outputs, all.begin() + (row + 1) * outputs);
    ASSERT_EQ(multiply(weight, one, 1, rounds), expected)
        << outputs << " x " << columns << ", row " << row << (rounds ? " rounded" : "");
  }
}

TEST(Product, ARowHasTheSameBitsAloneAndAmongMany) {
  for_instruction_sets([] {
    for (const bool rounds : {false, true}) {
      for (const std::int64_t columns : {6, 30, 128, 200, 208, 1024, 1030}) {
        for (const std::int64_t outputs : {5, 32, 70, 130})
          expect_bits_of_single_rows(outputs, columns, rounds);
      }
    }
  });
}

}  // namespace
}  // namespace inkstone::cpu
