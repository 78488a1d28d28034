// SPDX-License-Identifier: Apache-2.0
// checkpoint/expected_tensors.h - the table of `spec/checkpoint.md` 3 as data: which tensors a configuration
// asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model_config.h"
#include "tensor/tensor_view.h"

namespace inkstone::checkpoint {

// Parts that a checkpoint may lack as a whole.
enum class TensorGroup { kTrunk, kMtp, kVision, kAudio };

enum class TensorRole {
  kPlain,    // BF16
  kConv,     // BF16; HF keeps these weights in F32 and may save them so
  kRouter,   // F32, and never anything else: selection depends on the last bits
  kGated,    // BF16, gate and up rows interleaved (or stored as halves, or apart, under HF names)
  kExperts,  // BF16 or NVFP4 bank
  kGatedExperts,
};

struct ExpectedTensor {
  static constexpr std::int64_t kAnySize =
      -1;  // an axis that only the file knows (inner widths of the vision tower)

  std::string name;
  Shape shape;
  TensorRole role = TensorRole::kPlain;
  TensorGroup group = TensorGroup::kTrunk;
};

inline bool is_gated(TensorRole role) {
  return role == TensorRole::kGated || role == TensorRole::kGatedExperts;
}
inline bool may_be_quantised(TensorRole role) {
  return role == TensorRole::kExperts || role == TensorRole::kGatedExperts;
}

// Native names, in the order trunk, heads, vision, audio. Companions of NVFP4 tensors are not listed.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

}  // namespace inkstone::checkpoint
