// SPDX-License-Identifier: Apache-2.0
// backends/reference/reference_backend.h - scalar f32: the specification that every other backend is tested
// against.
#pragma once

#include "backends/host/host_backend.h"

namespace inkstone::reference {

// One function per operation, no blocking; rows and heads are spread over threads, sums never are. Accepts
// f32 and bf16 activations.
class ReferenceBackend : public host::HostBackend {
 public:
  using HostBackend::HostBackend;

  [[nodiscard]] std::string name() const override { return "reference"; }

  void rms_norm(const ops::RmsNormArgs& args, ops::Stream& stream) override;
  void linear(const ops::LinearArgs& args, ops::Stream& stream) override;
  void gated_linear(const ops::GatedLinearArgs& args, ops::Stream& stream) override;
  void short_conv(const ops::ShortConvArgs& args, ops::Stream& stream) override;
  void attention(const ops::AttentionArgs& args, ops::Stream& stream) override;
  void moe(const ops::MoeArgs& args, ops::Stream& stream) override;
};

}  // namespace inkstone::reference
