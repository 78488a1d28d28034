// SPDX-License-Identifier: Apache-2.0
// tensor/matrix_bank.h - weight matrices as a checkpoint stores them: one matrix, or a bank of experts, BF16
// or NVFP4.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/scalar_types.h"
#include "tensor/tensor_view.h"

namespace inkstone {

// `banks` matrices of [rows, columns], y = W x. Strides are free, so that the gate rows of an interleaved
// tensor, the first half of a de-interleaved one and a rank's slice are all views of the mapped file
// (`checkpoint.md` 3.4, 4, 5).
//   kBF16:  columns BFloat16 a row.
//   kU8:    NVFP4: two E2M1 codes a byte, the even column in the low nibble; one E4M3 scale per 16 columns;
//   one F32
//           factor per bank. Weight = E2M1(code) * E4M3(scale) * scale2.
//   kF32:   columns floats a row (small towers of tests only).
// Non-owning; read-only; host or device memory.
struct MatrixBank {
  static constexpr std::int64_t kColumnsPerScale = 16;

  const std::byte* data = nullptr;
  ScalarType type = ScalarType::kBF16;
  std::int64_t banks = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // logical columns, also for kU8
  std::int64_t row_stride_bytes = 0;
  std::int64_t bank_stride_bytes = 0;

  const std::uint8_t* scales = nullptr;  // kU8 only
  std::int64_t scale_row_stride_bytes = 0;
  std::int64_t scale_bank_stride_bytes = 0;
  const float* scale2 = nullptr;  // kU8 only: [banks]
  // kU8 only, may be null: the calibrated amax of the inputs of this projection (BF16 [1]), for NVFP4
  // activations.
  const BFloat16* input_amax = nullptr;

  [[nodiscard]] bool empty() const { return data == nullptr; }
  [[nodiscard]] bool quantised() const { return type == ScalarType::kU8; }
  [[nodiscard]] const std::byte* row(std::int64_t bank, std::int64_t index) const {
    return data + bank * bank_stride_bytes + index * row_stride_bytes;
  }
  [[nodiscard]] const std::uint8_t* scale_row(std::int64_t bank, std::int64_t index) const {
    return scales + bank * scale_bank_stride_bytes + index * scale_row_stride_bytes;
  }
  // Bytes of the values and scales of one matrix, what a product with it must read.
  [[nodiscard]] std::int64_t bank_bytes() const {
    const std::int64_t values =
        quantised() ? columns / 2 + columns / kColumnsPerScale : columns * size_bytes(type);
    return rows * values;
  }

  // A plain matrix [N, K] or bank [E, N, K] in BF16 or F32.
  static MatrixBank of(const TensorView& weight) {
    const bool is_bank = weight.shape.rank() == 3;
    INK_CHECK(is_bank || weight.shape.rank() == 2, to_string(weight.shape));
    MatrixBank bank;
    bank.data = weight.data;
    bank.type = weight.type;
    bank.banks = is_bank ? weight.shape[0] : 1;
    bank.rows = weight.shape[is_bank ? 1 : 0];
    bank.columns = weight.shape[is_bank ? 2 : 1];
    bank.row_stride_bytes = (is_bank ? bank.columns : weight.row_stride) * size_bytes(weight.type);
    bank.bank_stride_bytes = bank.rows * bank.row_stride_bytes;
    return bank;
  }
  // Rows begin, begin + step, ... of every matrix of the bank: the gate (begin 0) or up (begin 1) rows of an
  // interleaved tensor with step 2.
  [[nodiscard]] MatrixBank every(std::int64_t step, std::int64_t begin) const {
    MatrixBank part = *this;
    part.data = row(0, begin);
    part.rows = (rows - begin + step - 1) / step;
    part.row_stride_bytes = row_stride_bytes * step;
    if (scales != nullptr) {
      part.scales = scale_row(0, begin);
      part.scale_row_stride_bytes = scale_row_stride_bytes * step;
    }
    return part;
  }
  // Rows [begin, begin + count) of every matrix of the bank.
  [[nodiscard]] MatrixBank slice_rows(std::int64_t begin, std::int64_t count) const {
    MatrixBank part = *this;
    part.data = row(0, begin);
    part.rows = count;
    if (scales != nullptr) part.scales = scale_row(0, begin);
    return part;
  }
};

// The two halves of a SwiGLU layer: h = silu(gate x) * (up x), each [F, M] or a bank of them.
struct GatedMatrix {
  MatrixBank gate;
  MatrixBank up;
};

}  // namespace inkstone
