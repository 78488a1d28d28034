// SPDX-License-Identifier: Apache-2.0
// tensor/tensor_view.h - a non-owning view of numbers in host or device memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"
#include "tensor/scalar_types.h"

namespace inkstone {

// Up to five axes, outermost first.
class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
    INK_CHECK(sizes.size() <= kMaxRank, "a shape has at most five axes");
    for (int i = 0; i < rank_; ++i) sizes_[static_cast<std::size_t>(i)] = sizes[static_cast<std::size_t>(i)];
  }

  [[nodiscard]] int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  [[nodiscard]] std::int64_t num_elements() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank_; ++i) product *= (*this)[i];
    return product;
  }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[2, 3]"

// Views do not own; whoever made the memory says how long it lives. Operations write only what their contract
// calls an output, so one type serves for inputs (mapped, read-only files among them) and outputs. All axes
// but the outermost are contiguous; consecutive entries of the outermost axis are `row_stride` elements
// apart, so that a slice of columns is a view too.
struct TensorView {
  std::byte* data = nullptr;
  ScalarType type = ScalarType::kF32;
  Shape shape;
  std::int64_t row_stride = 0;  // elements

  TensorView() = default;
  TensorView(void* memory, ScalarType scalar, Shape sizes)
      : data(static_cast<std::byte*>(memory)), type(scalar), shape(sizes), row_stride(row_elements()) {}

  [[nodiscard]] bool empty() const { return data == nullptr; }
  [[nodiscard]] std::int64_t rows() const { return shape.rank() == 0 ? 1 : shape[0]; }
  // Elements of one entry of the outermost axis.
  [[nodiscard]] std::int64_t row_elements() const {
    std::int64_t product = 1;
    for (int i = 1; i < shape.rank(); ++i) product *= shape[i];
    return product;
  }
  [[nodiscard]] bool contiguous() const { return row_stride == row_elements(); }
  [[nodiscard]] std::int64_t bytes() const { return shape.num_elements() * size_bytes(type); }

  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data);
  }
  template <class T>
  [[nodiscard]] T* row(std::int64_t index) const {
    return reinterpret_cast<T*>(data) + index * row_stride;
  }

  // Entries [begin, begin + count) of the outermost axis.
  [[nodiscard]] TensorView rows_at(std::int64_t begin, std::int64_t count) const;
  // Columns [begin, begin + count) of a matrix [T, N].
  [[nodiscard]] TensorView columns_at(std::int64_t begin, std::int64_t count) const;
  // The same elements under another shape with the same outermost axis, or any shape when contiguous.
  [[nodiscard]] TensorView reshaped(Shape sizes) const;
  // Entry `index` of the outermost axis as a contiguous tensor of the remaining axes.
  [[nodiscard]] TensorView entry(std::int64_t index) const;
};

}  // namespace inkstone
