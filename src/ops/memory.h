// SPDX-License-Identifier: Apache-2.0
// ops/memory.h - a backend's memory: allocation at load, copies across the border to the host.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "ops/stream.h"
#include "tensor/tensor_view.h"

namespace inkstone::ops {

// Owns memory of a backend; freed with the object. Aligned to 256 bytes.
using Buffer = std::shared_ptr<std::byte>;

class MemoryOps {
 public:
  virtual ~MemoryOps() = default;
  // Uninitialised. kTooLarge with both numbers when it does not fit. Never called on the step path.
  virtual Result<Buffer> allocate(std::int64_t bytes) = 0;
  // Host memory that copies to and from the backend are fastest with: page-locked where there is a device.
  virtual Result<Buffer> allocate_staging(std::int64_t bytes) { return allocate(bytes); }
  virtual std::unique_ptr<Stream> make_stream() = 0;
  // Copies between host and backend memory, ordered in the stream. The host side must stay valid until the
  // stream has been waited for. Host backends copy at once.
  virtual void upload(void* device, const void* host, std::int64_t bytes, Stream& stream) = 0;
  virtual void download(void* host, const void* device, std::int64_t bytes, Stream& stream) = 0;
  virtual void copy(void* to, const void* from, std::int64_t bytes, Stream& stream) = 0;
  // True where the backend reads host memory itself: weights need no upload, mapped files are used in place.
  [[nodiscard]] virtual bool host_memory() const = 0;
};

}  // namespace inkstone::ops
