// SPDX-License-Identifier: Apache-2.0
// backends/cuda/linear/weights.h - from the contract's weight matrices to what the kernels read.
#pragma once

#include "backends/cuda/launch.h"
#include "backends/cuda/linear/stripe.cuh"
#include "tensor/matrix_bank.h"

namespace inkstone::cuda {

inline WeightView view_of(const MatrixBank& bank) {
  return {reinterpret_cast<const std::uint8_t*>(bank.data),
          bank.scales,
          bank.scale2,
          bank.row_stride_bytes,
          bank.bank_stride_bytes,
          bank.scale_row_stride_bytes,
          bank.scale_bank_stride_bytes};
}

inline WeightFormat format_of(const MatrixBank& bank) {
  const auto multiple = [&](std::int64_t of) {
    return reinterpret_cast<std::uintptr_t>(bank.data) % static_cast<std::uintptr_t>(of) == 0 &&
           bank.row_stride_bytes % of == 0 && bank.bank_stride_bytes % of == 0;
  };
  if (!bank.quantised()) {
    INK_CHECK(bank.type == ScalarType::kBF16, "weights on CUDA are BF16 or NVFP4");
    return multiple(16) && bank.columns % 8 == 0 ? WeightFormat::kBf16 : WeightFormat::kBf16Loose;
  }
  INK_CHECK(multiple(4) && bank.columns % MatrixBank::kColumnsPerScale == 0,
            "NVFP4 rows are aligned to 4 bytes");
  const bool aligned_scales = reinterpret_cast<std::uintptr_t>(bank.scales) % 4 == 0 &&
                              bank.scale_row_stride_bytes % 4 == 0 && bank.scale_bank_stride_bytes % 4 == 0;
  return multiple(16) && aligned_scales && bank.columns % kTurn == 0 ? WeightFormat::kNvfp4
                                                                     : WeightFormat::kNvfp4Narrow;
}

}  // namespace inkstone::cuda
