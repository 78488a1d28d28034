// SPDX-License-Identifier: Apache-2.0
// tests/support/host_memory.h - memory and streams of a host backend without operations.
#pragma once

#include <cstring>

#include "ops/memory.h"

namespace inkstone::testing {

class HostMemory final : public ops::MemoryOps {
 public:
  Result<ops::Buffer> allocate(std::int64_t bytes) override {
    return ops::Buffer(new std::byte[static_cast<std::size_t>(bytes + 1)](),
                       std::default_delete<std::byte[]>());
  }
  std::unique_ptr<ops::Stream> make_stream() override { return std::make_unique<DoneStream>(); }
  void upload(void* device, const void* host, std::int64_t bytes, ops::Stream&) override {
    std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
  void download(void* host, const void* device, std::int64_t bytes, ops::Stream&) override {
    std::memcpy(host, device, static_cast<std::size_t>(bytes));
  }
  void copy(void* to, const void* from, std::int64_t bytes, ops::Stream&) override {
    std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
  [[nodiscard]] bool host_memory() const override { return true; }

 private:
  struct DoneStream final : ops::Stream {
    void wait() override {}
  };
};

}  // namespace inkstone::testing
