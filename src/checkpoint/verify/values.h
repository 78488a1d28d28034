// SPDX-License-Identifier: Apache-2.0
// checkpoint/verify/values.h - search of weights for values that no weight may have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/tensor_view.h"

namespace inkstone::checkpoint {

// Flat index of the first NaN or infinity of a contiguous tensor. Codes and integers have none.
std::optional<std::int64_t> first_non_finite(const TensorView& tensor);

// "[3, 17]": the coordinate of a flat index.
std::string coordinate(const Shape& shape, std::int64_t index);

}  // namespace inkstone::checkpoint
