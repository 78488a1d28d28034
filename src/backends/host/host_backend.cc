// SPDX-License-Identifier: Apache-2.0
#include "backends/host/host_backend.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "backends/host/sample.h"

namespace inkstone::host {
namespace {

class HostStream final : public ops::Stream {
 public:
  void wait() override {}
};

constexpr std::size_t kAlignment = 256;

}  // namespace

HostBackend::HostBackend(const ThreadPoolOptions& threads) : pool_(threads) {}

Result<ops::Buffer> HostBackend::allocate(std::int64_t bytes) {
  const auto rounded_up = (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, rounded_up);
  if (memory == nullptr) {
    return fail(ErrorKind::kTooLarge, fmt::format("{} bytes of host memory are not to be had", bytes));
  }
  return ops::Buffer(static_cast<std::byte*>(memory), [](std::byte* owned) { std::free(owned); });
}

std::unique_ptr<ops::Stream> HostBackend::make_stream() { return std::make_unique<HostStream>(); }

void HostBackend::upload(void* device, const void* host, std::int64_t bytes, ops::Stream&) {
  std::memcpy(device, host, static_cast<std::size_t>(bytes));
}

void HostBackend::download(void* host, const void* device, std::int64_t bytes, ops::Stream&) {
  std::memcpy(host, device, static_cast<std::size_t>(bytes));
}

void HostBackend::copy(void* to, const void* from, std::int64_t bytes, ops::Stream&) {
  std::memmove(to, from, static_cast<std::size_t>(bytes));
}

std::int64_t HostBackend::sample_workspace_bytes(std::int64_t, std::int64_t num_valid) const {
  return host::sample_workspace_bytes(pool_.num_threads(), num_valid);
}

void HostBackend::sample(const ops::SampleArgs& args, ops::Stream&) { host::sample(args, &pool_); }

}  // namespace inkstone::host
