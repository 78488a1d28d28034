// SPDX-License-Identifier: Apache-2.0
// backends/cuda/linear/problem.cuh - products as their kernels see them.
#pragma once

#include "backends/cuda/linear/weights.h"

namespace inkstone::cuda {

inline constexpr int kMaxParts = 4;

// One weight of several that share an input.
struct LinearPart {
  WeightView weight;
  int num_rows;
  int first_stripe;  // of the grid: stripes of the step kernels, tiles of the prefill kernels
  int first_column;  // of the output
};

struct LinearProblem {
  LinearPart parts[kMaxParts];
  int num_parts;
  const bf16* x;
  std::int64_t x_stride;
  void* out;
  std::int64_t out_stride;
  bool out_is_float;
  bool adds;  // to out, which is float
  int num_rows;
  int columns;  // K
  float alpha;
  const void* out_scale;  // null, or one number
  bool out_scale_is_float;

  __device__ float scale() const {
    if (out_scale == nullptr) return alpha;
    return alpha * (out_scale_is_float ? *static_cast<const float*>(out_scale)
                                       : __bfloat162float(*static_cast<const bf16*>(out_scale)));
  }
  __device__ void store(int row, int column, float value) const {
    const std::int64_t at = row * out_stride + column;
    if (out_is_float) {
      auto* const to = static_cast<float*>(out) + at;
      *to = adds ? __fadd_rn(*to, value) : value;
    } else {
      static_cast<bf16*>(out)[at] = __float2bfloat16_rn(value);
    }
  }
};

struct GatedProblem {
  WeightView gate, up;
  const bf16* x;
  std::int64_t x_stride;
  bf16* out;
  std::int64_t out_stride;
  int num_rows;
  int columns;
  int width;  // F
};

}  // namespace inkstone::cuda
