// SPDX-License-Identifier: Apache-2.0
// model/workspace.h - the activations of one step: cut from one buffer, in the same order every time.
#pragma once

#include "ops/memory.h"
#include "tensor/tensor_view.h"

namespace inkstone::model {

// Hands out tensors from the front of a buffer. `mark` and `rewind` give back what a layer took, so that the
// next layer reuses the same memory. Without memory it only measures. Not thread-safe.
class Workspace {
 public:
  Workspace() = default;  // measures
  Workspace(std::byte* memory, std::int64_t bytes) : memory_(memory), capacity_(bytes) {}

  TensorView take(ScalarType type, Shape shape);
  [[nodiscard]] std::int64_t mark() const { return used_; }
  void rewind(std::int64_t mark) { used_ = mark; }
  [[nodiscard]] std::int64_t peak_bytes() const { return peak_; }

 private:
  static constexpr std::int64_t kAlignment = 256;

  std::byte* memory_ = nullptr;
  std::int64_t capacity_ = 0;
  std::int64_t used_ = 0;
  std::int64_t peak_ = 0;
};

}  // namespace inkstone::model
