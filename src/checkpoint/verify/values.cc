// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/verify/values.h"

#include <algorithm>
#include <vector>

namespace inkstone::checkpoint {
namespace {

// A value is NaN or infinite when all bits of `exponent` are set. Blocks first, so that the common case is
// one vectorised sweep without a branch per value.
template <class Word>
std::optional<std::int64_t> first_matching(const Word* values, std::int64_t count, Word exponent) {
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    bool found = false;
    for (std::int64_t i = begin; i < end; ++i) found |= (values[i] & exponent) == exponent;
    if (!found) continue;
    for (std::int64_t i = begin; i < end; ++i)
      if ((values[i] & exponent) == exponent) return i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> first_non_finite(const TensorView& tensor) {
  const std::int64_t count = tensor.shape.num_elements();
  switch (tensor.type) {
    case ScalarType::kBF16:
      return first_matching<std::uint16_t>(tensor.as<std::uint16_t>(), count, 0x7f80);
    case ScalarType::kF32:
      return first_matching<std::uint32_t>(tensor.as<std::uint32_t>(), count, 0x7f800000);
    case ScalarType::kF8E4M3:
      return first_matching<std::uint8_t>(tensor.as<std::uint8_t>(), count, 0x7f);
    case ScalarType::kU8:
    case ScalarType::kI32:
    case ScalarType::kI64:
      break;
  }
  return std::nullopt;
}

std::string coordinate(const Shape& shape, std::int64_t index) {
  std::vector<std::int64_t> position(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    position[static_cast<std::size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return to_string(Shape(position));
}

}  // namespace inkstone::checkpoint
