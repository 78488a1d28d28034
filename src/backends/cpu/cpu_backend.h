// SPDX-License-Identifier: Apache-2.0
// backends/cpu/cpu_backend.h - operations on the host with vector kernels chosen at start: activations and
// state f32, weights as stored.
#pragma once

#include <vector>

#include "backends/host/host_backend.h"

namespace inkstone::cpu {

// The bits of a row depend on that row and on the instruction set, never on the batch, the chunking or the
// number of threads.
class CpuBackend final : public host::HostBackend {
 public:
  explicit CpuBackend(int threads);  // 0: the CPUs this process may use

  [[nodiscard]] std::string name() const override { return "cpu"; }

  void rms_norm(const ops::RmsNormArgs& args, ops::Stream& stream) override;
  void linear(const ops::LinearArgs& args, ops::Stream& stream) override;
  void gated_linear(const ops::GatedLinearArgs& args, ops::Stream& stream) override;
  void short_conv(const ops::ShortConvArgs& args, ops::Stream& stream) override;
  void attention(const ops::AttentionArgs& args, ops::Stream& stream) override;
  void moe(const ops::MoeArgs& args, ops::Stream& stream) override;

 private:
  // Memory of one thread; grows to its largest use.
  struct Scratch {
    std::vector<float> product;
    std::vector<float> floats;
    std::vector<const float*> pointers;
  };
  // One product spread over the threads; out[t * out_stride + n], bank `bank` of the weight.
  struct Product {
    const MatrixBank* weight = nullptr;
    std::int64_t bank = 0;
    const float* x = nullptr;
    std::int64_t x_stride = 0;
    std::int64_t num_rows = 0;
    float* out = nullptr;
    std::int64_t out_stride = 0;
  };

  void run_product(const Product& product);
  void run_expert(const ops::MoeArgs& args, std::int64_t slot_bank, bool routed,
                  const std::vector<std::int64_t>& pairs);
  void attend_row(const ops::AttentionArgs& args, std::int64_t row, std::int64_t kv_head,
                  Scratch& scratch) const;
  // A buffer of the backend that later calls use again.
  static float* grown(std::vector<float>& memory, std::int64_t floats);

  std::vector<Scratch> scratch_;  // by worker
  std::vector<float> gate_;
  std::vector<float> up_;
  std::vector<float> gathered_;
  std::vector<float> outputs_;
  std::vector<float> relative_;  // [d_rel, R] widened
  std::vector<std::vector<std::int64_t>> pairs_of_expert_;
};

}  // namespace inkstone::cpu
