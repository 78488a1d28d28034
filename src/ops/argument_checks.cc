// SPDX-License-Identifier: Apache-2.0
#include "ops/argument_checks.h"

#include <fmt/format.h>

namespace inkstone::ops {

void expect_shape(const TensorView& view, const Shape& shape, std::string_view name_of) {
  INK_CHECK(view.shape == shape,
            fmt::format("{} is {}, not {}", name_of, to_string(view.shape), to_string(shape)));
  INK_CHECK(!view.empty() || shape.num_elements() == 0, fmt::format("{} has no memory", name_of));
}

void expect_type(const TensorView& view, ScalarType type, std::string_view name_of) {
  INK_CHECK(view.type == type, fmt::format("{} is {}, not {}", name_of, name(view.type), name(type)));
}

void expect_activation(const TensorView& view, std::string_view name_of) {
  INK_CHECK(view.type == ScalarType::kF32 || view.type == ScalarType::kBF16,
            fmt::format("{} is {}, neither F32 nor BF16", name_of, name(view.type)));
}

void expect_same(const TensorView& view, const TensorView& other, std::string_view name_of) {
  expect_shape(view, other.shape, name_of);
  expect_type(view, other.type, name_of);
}

void expect_rank(const TensorView& view, int rank, std::string_view name_of) {
  INK_CHECK(view.shape.rank() == rank,
            fmt::format("{} is {}, not of rank {}", name_of, to_string(view.shape), rank));
}

}  // namespace inkstone::ops
