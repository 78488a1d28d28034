// SPDX-License-Identifier: Apache-2.0
// backends/host/host_backend.h - what the backends on host memory share: memory, moves of rows, routing,
// sampling. The products, norms, convolutions and attention are each backend's own.
#pragma once

#include <memory>

#include "base/thread_pool.h"
#include "ops/backend.h"

namespace inkstone::host {

// Operations run when they are called. Accepts f32 and bf16 activations.
class HostBackend : public ops::Backend {
 public:
  explicit HostBackend(const ThreadPoolOptions& threads);
  explicit HostBackend(int threads) : HostBackend(ThreadPoolOptions{.threads = threads}) {}

  [[nodiscard]] ScalarType activation_type() const override { return ScalarType::kF32; }

  Result<ops::Buffer> allocate(std::int64_t bytes) override;
  std::unique_ptr<ops::Stream> make_stream() override;
  void upload(void* device, const void* host, std::int64_t bytes, ops::Stream& stream) override;
  void download(void* host, const void* device, std::int64_t bytes, ops::Stream& stream) override;
  void copy(void* to, const void* from, std::int64_t bytes, ops::Stream& stream) override;
  [[nodiscard]] bool host_memory() const override { return true; }

  void embed(const ops::EmbedArgs& args, ops::Stream& stream) override;
  void embed_sum(const ops::EmbedSumArgs& args, ops::Stream& stream) override;
  void store_kv(const ops::StoreKvArgs& args, ops::Stream& stream) override;
  void route(const ops::RouteArgs& args, ops::Stream& stream) override;
  void add(const ops::AddArgs& args, ops::Stream& stream) override;
  void log_scale(const ops::LogScaleArgs& args, ops::Stream& stream) override;
  void gelu(const ops::GeluArgs& args, ops::Stream& stream) override;
  void gather_rows(const ops::GatherRowsArgs& args, ops::Stream& stream) override;
  void scatter_rows(const ops::ScatterRowsArgs& args, ops::Stream& stream) override;
  void round_nvfp4(const ops::RoundNvfp4Args& args, ops::Stream& stream) override;
  [[nodiscard]] std::int64_t sample_workspace_bytes(std::int64_t rows, std::int64_t num_valid) const override;
  void sample(const ops::SampleArgs& args, ops::Stream& stream) override;
  void advance_windows(const ops::AdvanceWindowsArgs& args, ops::Stream& stream) override;

 protected:
  ThreadPool pool_;
};

}  // namespace inkstone::host
