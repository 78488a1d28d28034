// SPDX-License-Identifier: Apache-2.0
#include "tensor/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace inkstone {

std::string to_string(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < shape.rank(); ++i) sizes.push_back(shape[i]);
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

TensorView TensorView::rows_at(std::int64_t begin, std::int64_t count) const {
  INK_CHECK(shape.rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= shape[0], to_string(shape));
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  for (int i = 0; i < shape.rank(); ++i) sizes[static_cast<std::size_t>(i)] = shape[i];
  sizes[0] = count;
  TensorView view = *this;
  view.shape = Shape(std::span(sizes.data(), static_cast<std::size_t>(shape.rank())));
  view.data = data + begin * row_stride * size_bytes(type);
  return view;
}

TensorView TensorView::columns_at(std::int64_t begin, std::int64_t count) const {
  INK_CHECK(shape.rank() == 2 && begin >= 0 && count >= 0 && begin + count <= shape[1], to_string(shape));
  TensorView view = *this;
  view.shape = {shape[0], count};
  view.data = data + begin * size_bytes(type);
  return view;
}

TensorView TensorView::reshaped(Shape sizes) const {
  INK_CHECK(sizes.num_elements() == shape.num_elements(), to_string(sizes));
  const bool same_rows = shape.rank() >= 1 && sizes.rank() >= 1 && sizes[0] == shape[0];
  INK_CHECK(contiguous() || same_rows, to_string(sizes));
  TensorView view(data, type, sizes);
  if (same_rows) view.row_stride = row_stride;
  return view;
}

TensorView TensorView::entry(std::int64_t index) const {
  INK_CHECK(shape.rank() >= 1 && index >= 0 && index < shape[0], to_string(shape));
  std::array<std::int64_t, Shape::kMaxRank> sizes{};
  for (int i = 1; i < shape.rank(); ++i) sizes[static_cast<std::size_t>(i - 1)] = shape[i];
  return {data + index * row_stride * size_bytes(type), type,
          Shape(std::span(sizes.data(), static_cast<std::size_t>(shape.rank() - 1)))};
}

}  // namespace inkstone
