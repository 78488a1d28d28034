// SPDX-License-Identifier: Apache-2.0
// backends/cuda/linear/prefill.h - products of prefill rows. Their bits differ from those of step rows: the
// order of the sum is another.
#pragma once

#include <algorithm>

#include "backends/cuda/launch.h"
#include "backends/cuda/linear/problem.cuh"
#include "backends/cuda/linear/tiles.cuh"

namespace inkstone::cuda {

// Rows whose parts of K are whole vectors. Follows from the weight alone, so that the class of a row does.
inline bool tiles_take(const MatrixBank& bank) {
  if (!bank.quantised()) return format_of(bank) == WeightFormat::kBf16;
  const auto multiple = [&](const void* data, std::int64_t row, std::int64_t bank_stride, std::int64_t of) {
    return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(of) == 0 && row % of == 0 &&
           bank_stride % of == 0;
  };
  return bank.columns % kTilePart == 0 &&
         multiple(bank.data, bank.row_stride_bytes, bank.bank_stride_bytes, 16) &&
         multiple(bank.scales, bank.scale_row_stride_bytes, bank.scale_bank_stride_bytes, 4);
}

// 16s of rows of a warp (tiles.cuh) for that many rows that share their weights: large tiles read less,
// smaller ones give every multiprocessor work, which is worth more. Decides no bit.
inline int row_tiles_for(std::int64_t rows, std::int64_t output_tiles) {
  constexpr std::int64_t kMultiprocessors = 132;
  if (rows <= 32) return 1;
  return rows <= 64 || ceil_div(rows, 128) * output_tiles < kMultiprocessors ? 2 : 4;
}

// Calls `run` with the number as a constant.
template <class Run>
void with_row_tiles(int row_tiles, const Run& run) {
  if (row_tiles == 1) return run(std::integral_constant<int, 1>{});
  if (row_tiles == 2) return run(std::integral_constant<int, 2>{});
  run(std::integral_constant<int, 4>{});
}

// Rows [0, num_rows) of the problem; first_stripe of its parts is set here. Weights are ones that tiles_take.
void linear_prefill(LinearProblem problem, bool quantised, const Launch& launch);
void gated_linear_prefill(const GatedProblem& problem, bool quantised, const Launch& launch);

}  // namespace inkstone::cuda
