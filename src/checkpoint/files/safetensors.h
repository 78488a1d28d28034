// SPDX-License-Identifier: Apache-2.0
// checkpoint/files/safetensors.h - the header of one safetensors file: 8 bytes little-endian length, JSON,
// payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/scalar_types.h"
#include "tensor/tensor_view.h"

namespace inkstone::checkpoint {

struct StoredTensor {
  std::string name;
  std::string dtype;               // as spelled in the header
  std::optional<ScalarType> type;  // none: a type of the format that no Inkling checkpoint uses
  Shape shape;
  std::uint64_t begin = 0;  // bytes [begin, end) of the file
  std::uint64_t end = 0;
};

// The format's own limit, also of its first implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Tensors in the order of their bytes. `file` is the whole file (only its header is touched); `name` stands
// in messages. Checks everything that the header promises: types, shapes of at most Shape::kMaxRank axes,
// sizes, and that the tensors cover the payload exactly, without overlap, hole or rest (the format forbids
// all three).
Result<std::vector<StoredTensor>> parse_safetensors(std::span<const std::byte> file, std::string_view name);

}  // namespace inkstone::checkpoint
