// SPDX-License-Identifier: Apache-2.0
// backends/cuda/moe/problem.cuh - a mixture of experts as its kernels see it.
#pragma once

#include "backends/cuda/linear/weights.h"
#include "backends/cuda/moe/tables.cuh"
#include "ops/moe.h"

namespace inkstone::cuda {

struct MoeProblem {
  const bf16* x;
  const bf16* routed_x;  // x, or x rounded to NVFP4
  std::int64_t x_stride, routed_x_stride;
  const std::int32_t* experts;
  std::int64_t experts_stride;
  const float* weights;
  std::int64_t weights_stride;
  bf16* hidden;  // [rows, slots, F]
  bf16* out;
  std::int64_t out_stride;
  float* products;       // [rows, slots, M]: down projections before their weights
  float* shared_hidden;  // few rows: [rows, S, F], of the shared experts before gamma and rounding
  ExpertTables tables;
  int num_rows, num_experts, chosen, slots;
  int width;                           // M
  int hidden_width;                    // F
  WeightView gate[2], up[2], down[2];  // of the routed experts, of the shared ones

  __host__ __device__ int shared_banks() const { return slots - chosen; }
  __device__ bool chooses_none(std::int64_t row, int slot) const {
    return slot < chosen && experts[row * experts_stride + slot] < 0;
  }
};

// Products are rounded to BF16 before the gate, as the model's text says.
__device__ __forceinline__ float gated_unit(float gate_product, float up_product) {
  return silu(round_bf16(gate_product)) * round_bf16(up_product);
}

// Rows [begin, begin + count) of the batch.
MoeProblem problem_of(const ops::MoeArgs& args, std::int64_t begin, std::int64_t count);

// The looser format of both halves.
inline WeightFormat looser_format(const GatedMatrix& weight) {
  return std::max(format_of(weight.gate), format_of(weight.up));
}

// W4A4 (`MoeArgs::nvfp4_activations`): what quantised products read is rounded to NVFP4 first. `memory` takes
// the rounded input, num_rows * width BF16.
bool rounds_activations(const ops::MoeArgs& args);
void round_input(const ops::MoeArgs& args, MoeProblem& p, std::byte* memory, const Launch& launch);
void round_hidden(const ops::MoeArgs& args, const MoeProblem& p, const Launch& launch);

// Calls `run` with the format as a constant.
template <class Run>
void with_format(WeightFormat format, const Run& run) {
  switch (format) {
    case WeightFormat::kBf16:
      return run(std::integral_constant<WeightFormat, WeightFormat::kBf16>{});
    case WeightFormat::kNvfp4:
      return run(std::integral_constant<WeightFormat, WeightFormat::kNvfp4>{});
    case WeightFormat::kNvfp4Narrow:
      return run(std::integral_constant<WeightFormat, WeightFormat::kNvfp4Narrow>{});
    case WeightFormat::kBf16Loose:
      INK_CHECK(false, "expert rows are aligned to 16 bytes");
  }
}

}  // namespace inkstone::cuda
