// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/verify/against_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace inkstone::checkpoint {
namespace {

constexpr std::int64_t kExperts = 8;
constexpr std::int64_t kRows = 64;
constexpr double kMostUnits = 1.0;              // half of the grid's widest gap
constexpr double kSubnormalReach = 6.0 / 1024;  // 6 codes of half the smallest E4M3 step, 2^-10

struct Sums {
  std::int64_t weights = 0;
  std::int64_t beyond = 0;
  double difference = 0.0;
  double reference = 0.0;
};

void compare_row(const MatrixBank& coded, const MatrixBank& plain, std::int64_t bank, std::int64_t row,
                 Sums& sums) {
  const auto* weights = reinterpret_cast<const BFloat16*>(plain.row(bank, row));
  const std::byte* codes = coded.row(bank, row);
  const std::uint8_t* scales = coded.scale_row(bank, row);
  const double scale2 = coded.scale2[bank];
  for (std::int64_t column = 0; column < coded.columns; ++column) {
    const double unit = e4m3_to_float(scales[column / MatrixBank::kColumnsPerScale]) * scale2;
    const auto pair = std::to_integer<unsigned>(codes[column / 2]);
    const auto code = static_cast<std::uint8_t>(column % 2 == 0 ? pair & 15U : pair >> 4U);
    const double weight = to_float(weights[column]);
    const double difference = std::abs(weight - e2m1_to_float(code) * unit);
    // Negated, so that a NaN counts.
    if (!(difference <= kMostUnits * unit + kSubnormalReach * scale2)) ++sums.beyond;
    sums.difference += difference * difference;
    sums.reference += weight * weight;
  }
  sums.weights += coded.columns;
}

void compare_bank(const MatrixBank& coded, const MatrixBank& plain, Sums& sums) {
  const std::int64_t experts = std::min(coded.banks, kExperts);
  const std::int64_t rows = std::min(coded.rows, kRows);
  for (std::int64_t expert = 0; expert < experts; ++expert)
    for (std::int64_t row = 0; row < rows; ++row)
      compare_row(coded, plain, expert * coded.banks / experts, row * coded.rows / rows, sums);
}

Status check_same_shape(const std::string& name, const MatrixBank& coded, const MatrixBank& plain) {
  if (plain.type != ScalarType::kBF16)
    return invalid(fmt::format("{}: the reference holds no BF16 weights", name));
  if (plain.banks != coded.banks || plain.rows != coded.rows || plain.columns != coded.columns)
    return invalid(fmt::format("{}: the reference has {} x {} x {} weights, this checkpoint {} x {} x {}",
                               name, plain.banks, plain.rows, plain.columns, coded.banks, coded.rows,
                               coded.columns));
  return {};
}

using Parts = std::vector<std::pair<MatrixBank, MatrixBank>>;  // coded, plain

Result<BankDifference> compare_parts(const std::string& name, const Parts& parts) {
  Sums sums;
  for (const auto& [coded, plain] : parts) {
    INK_TRY(check_same_shape(name, coded, plain));
    compare_bank(coded, plain, sums);
  }
  const double error = sums.reference > 0 ? std::sqrt(sums.difference / sums.reference) : 0.0;
  return BankDifference{name, sums.weights, sums.beyond, error};
}

}  // namespace

Result<std::vector<BankDifference>> compare_with_reference(const Checkpoint& quantised,
                                                           const Checkpoint& reference) {
  if (quantised.config().num_layers() != reference.config().num_layers() ||
      quantised.config().dense_layers != reference.config().dense_layers)
    return invalid("the reference is another model: its layers differ");
  std::vector<BankDifference> found;
  for (std::int64_t layer = quantised.config().dense_layers; layer < quantised.config().num_layers();
       ++layer) {
    const std::string prefix = fmt::format("model.llm.layers.{}.mlp.experts.", layer);
    const std::string fused = prefix + "w13_weight";
    const std::string down = prefix + "w2_weight";
    const GatedMatrix coded = quantised.gated(fused);
    if (coded.gate.quantised()) {
      const GatedMatrix plain = reference.gated(fused);
      found.push_back(INK_TRY(compare_parts(fused, {{coded.gate, plain.gate}, {coded.up, plain.up}})));
    }
    if (const MatrixBank bank = quantised.matrix(down); bank.quantised())
      found.push_back(INK_TRY(compare_parts(down, {{bank, reference.matrix(down)}})));
  }
  if (found.empty()) return invalid("this checkpoint has no NVFP4 weights to compare");
  return found;
}

}  // namespace inkstone::checkpoint
