// SPDX-License-Identifier: Apache-2.0
#include "backends/host/rows.h"

#include <algorithm>

namespace inkstone::host {

void load_row(const TensorView& view, std::int64_t row, std::span<float> out) {
  if (view.type == ScalarType::kF32) {
    std::copy_n(view.row<float>(row), out.size(), out.data());
    return;
  }
  const auto* from = view.row<BFloat16>(row);
  std::transform(from, from + out.size(), out.begin(), [](BFloat16 value) { return to_float(value); });
}

void store_row(const TensorView& view, std::int64_t row, std::span<const float> values) {
  if (view.type == ScalarType::kF32) {
    std::copy(values.begin(), values.end(), view.row<float>(row));
    return;
  }
  std::transform(values.begin(), values.end(), view.row<BFloat16>(row), to_bfloat16);
}

float rounded(float value, ScalarType type) {
  return type == ScalarType::kBF16 ? to_float(to_bfloat16(value)) : value;
}

float scalar(const TensorView& view) {
  return view.type == ScalarType::kF32 ? *view.as<float>() : to_float(*view.as<BFloat16>());
}

namespace {

void load_nvfp4_row(const MatrixBank& weight, std::int64_t bank, std::int64_t row, std::span<float> out) {
  const auto* codes = reinterpret_cast<const std::uint8_t*>(weight.row(bank, row));
  const std::uint8_t* scales = weight.scale_row(bank, row);
  const float scale2 = weight.scale2[bank];
  for (std::int64_t column = 0; column < weight.columns; ++column) {
    const std::uint8_t byte = codes[column / 2];
    const std::uint8_t code = (column % 2 == 0) ? (byte & 15) : (byte >> 4);
    const float scale = e4m3_to_float(scales[column / MatrixBank::kColumnsPerScale]) * scale2;
    out[static_cast<std::size_t>(column)] = e2m1_to_float(code) * scale;
  }
}

}  // namespace

void load_weight_row(const MatrixBank& weight, std::int64_t bank, std::int64_t row, std::span<float> out) {
  if (weight.quantised()) return load_nvfp4_row(weight, bank, row, out);
  if (weight.type == ScalarType::kF32) {
    std::copy_n(reinterpret_cast<const float*>(weight.row(bank, row)), weight.columns, out.data());
    return;
  }
  const auto* from = reinterpret_cast<const BFloat16*>(weight.row(bank, row));
  std::transform(from, from + weight.columns, out.begin(), [](BFloat16 value) { return to_float(value); });
}

}  // namespace inkstone::host
