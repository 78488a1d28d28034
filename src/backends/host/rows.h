// SPDX-License-Identifier: Apache-2.0
// backends/host/rows.h - rows of activations as floats: the reference widens, computes in f32 and rounds
// once.
#pragma once

#include <span>

#include "tensor/matrix_bank.h"
#include "tensor/tensor_view.h"

namespace inkstone::host {

// Copies elements of one row (all axes behind the first, in order) of an f32 or bf16 view.
void load_row(const TensorView& view, std::int64_t row, std::span<float> out);
void store_row(const TensorView& view, std::int64_t row, std::span<const float> values);

// A value as the view's type would hold it.
float rounded(float value, ScalarType type);

// One number of a [1] view, f32 or bf16.
float scalar(const TensorView& view);

// Widens one row of a weight: exact for BF16; E2M1 * (E4M3 * scale2) for NVFP4, each product in f32.
void load_weight_row(const MatrixBank& weight, std::int64_t bank, std::int64_t row, std::span<float> out);

}  // namespace inkstone::host
