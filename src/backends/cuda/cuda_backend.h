// SPDX-License-Identifier: Apache-2.0
// backends/cuda/cuda_backend.h - the operations on one NVIDIA GPU. No CUDA headers here: whoever includes
// this is compiled without them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/cuda/capability.h"
#include "base/result.h"
#include "ops/backend.h"

namespace inkstone::cuda {

// GPUs that the driver shows; empty where there is no driver. Creates no context.
std::vector<DeviceInfo> list_devices();
// Capabilities whose machine code this binary holds.
std::vector<Capability> built_capabilities();

// The backend of one GPU. Activations and state are BF16. Operations of one stream may be captured once they
// have run eagerly at that size: scratch memory has its size then.
class GpuBackend : public ops::Backend {
 public:
  [[nodiscard]] virtual const DeviceInfo& device() const = 0;
  // Seconds of device time between two points of a stream: benches only. Waits.
  virtual double time_seconds(ops::Stream& stream, const std::function<void()>& operations) = 0;
  // Whether kernels may begin while the one before them still runs; on from the start. No bit depends on it:
  // benches and the search for races turn it off.
  virtual void overlap_launches(bool on) = 0;
  // A planted fault: attention adds the partial results of its splits without regard to their maxima. For
  // tests that must notice it.
  virtual void forget_maximum(bool on) = 0;
};

// kUnsupported with the reason where the device cannot run the kernels; kNotFound where there is none.
Result<std::unique_ptr<GpuBackend>> make_backend(int device_index);

}  // namespace inkstone::cuda
