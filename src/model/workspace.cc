// SPDX-License-Identifier: Apache-2.0
#include "model/workspace.h"

#include <algorithm>

namespace inkstone::model {

TensorView Workspace::take(ScalarType type, Shape shape) {
  const std::int64_t bytes = shape.num_elements() * size_bytes(type);
  const std::int64_t begin = used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  peak_ = std::max(peak_, used_);
  if (memory_ == nullptr) return {nullptr, type, shape};
  INK_CHECK(used_ <= capacity_, "the workspace was measured with this batch size");
  return {memory_ + begin, type, shape};
}

}  // namespace inkstone::model
