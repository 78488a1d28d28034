// SPDX-License-Identifier: Apache-2.0
// model/device_weights.h - the weights tree in a backend's own memory: comes from model/weights.h over a
// mapped checkpoint, goes to model/decoder.h.
#pragma once

#include <cstdint>
#include <functional>

#include "model/weights.h"
#include "ops/memory.h"

namespace inkstone::model {

// The views of `weights` lie in `memory`: they live together.
struct DeviceWeights {
  ModelWeights weights;
  ops::Buffer memory;
  std::int64_t bytes = 0;
  double seconds = 0;  // of copying

  [[nodiscard]] double bytes_per_second() const {
    return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  }
};

// Bytes that upload_weights takes on the backend. Views that overlap, such as the halves of an interleaved
// tensor, are counted and copied once.
std::int64_t device_bytes(const ModelWeights& host);

// Called now and then with the bytes copied so far.
using UploadProgress = std::function<void(std::int64_t bytes)>;

// Takes all memory at once, before the first copy: kTooLarge with both numbers where there is not enough.
// Every tensor begins at a multiple of 256 bytes, wherever the file has it. Streams through two small buffers
// of page-locked memory. `host` is needed until it returns.
Result<DeviceWeights> upload_weights(const ModelWeights& host, ops::MemoryOps& memory,
                                     const UploadProgress& progress = {});

}  // namespace inkstone::model
