// SPDX-License-Identifier: Apache-2.0
// ops/argument_checks.h - what the check() functions of the families share. A wrong argument is a fault of
// ours: abort.
#pragma once

#include <string_view>

#include "tensor/tensor_view.h"

namespace inkstone::ops {

// Each aborts with the argument's name, what it is and what it should be.
void expect_shape(const TensorView& view, const Shape& shape, std::string_view name);
void expect_type(const TensorView& view, ScalarType type, std::string_view name);
void expect_activation(const TensorView& view, std::string_view name);                     // f32 or bf16
void expect_same(const TensorView& view, const TensorView& other, std::string_view name);  // shape and type
void expect_rank(const TensorView& view, int rank, std::string_view name);

}  // namespace inkstone::ops
