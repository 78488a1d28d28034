// SPDX-License-Identifier: Apache-2.0
#include "backends/reference/reference_backend.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "backends/reference/sample.h"

namespace inkstone::reference {
namespace {

class HostStream final : public ops::Stream {
 public:
  void wait() override {}
};

constexpr std::size_t kAlignment = 256;

}  // namespace

ReferenceBackend::ReferenceBackend(int threads) : pool_(threads) {}

Result<ops::Buffer> ReferenceBackend::allocate(std::int64_t bytes) {
  const auto rounded_up = (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded_up);
  if (memory == nullptr) {
    return fail(ErrorKind::kTooLarge, fmt::format("{} bytes of host memory are not to be had", bytes));
  }
  return ops::Buffer(static_cast<std::byte*>(memory), [](std::byte* owned) { std::free(owned); });
}

std::unique_ptr<ops::Stream> ReferenceBackend::make_stream() { return std::make_unique<HostStream>(); }

void ReferenceBackend::upload(void* device, const void* host, std::int64_t bytes, ops::Stream&) {
  std::memcpy(device, host, static_cast<std::size_t>(bytes));
}

void ReferenceBackend::download(void* host, const void* device, std::int64_t bytes, ops::Stream&) {
  std::memcpy(host, device, static_cast<std::size_t>(bytes));
}

void ReferenceBackend::copy(void* to, const void* from, std::int64_t bytes, ops::Stream&) {
  std::memmove(to, from, static_cast<std::size_t>(bytes));
}

std::int64_t ReferenceBackend::sample_workspace_bytes(std::int64_t, std::int64_t num_valid) const {
  return reference::sample_workspace_bytes(pool_.num_threads(), num_valid);
}

void ReferenceBackend::sample(const ops::SampleArgs& args, ops::Stream&) { reference::sample(args, &pool_); }

}  // namespace inkstone::reference
