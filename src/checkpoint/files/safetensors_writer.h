// SPDX-License-Identifier: Apache-2.0
// checkpoint/files/safetensors_writer.h - writes one safetensors file piece by piece, in any order, in
// bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/scalar_types.h"
#include "tensor/tensor_view.h"

namespace inkstone::checkpoint {

struct TensorToWrite {
  std::string name;
  ScalarType type = ScalarType::kBF16;
  Shape shape;

  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(shape.num_elements() * size_bytes(type));
  }
};

// The file has its full size from the start; what is never written is a hole that reads as zeros. Wide types
// come first and the header is padded, so that every tensor is aligned for its type.
class SafetensorsWriter {
 public:
  // Refuses an existing file. `tensors` need no order; names must differ.
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<TensorToWrite> tensors);

  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&& other) noexcept;
  ~SafetensorsWriter();

  // Bytes of tensor `name` from its byte `offset` on.
  Status write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes);
  // Brings the file to the disk; nothing may be written afterwards.
  Status close();

 private:
  struct Place {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  SafetensorsWriter(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  std::string path_;
  int descriptor_ = -1;
  std::map<std::string, Place, std::less<>> places_;
};

}  // namespace inkstone::checkpoint
