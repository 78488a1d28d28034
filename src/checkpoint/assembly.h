// SPDX-License-Identifier: Apache-2.0
// checkpoint/assembly.h - stored tensors of all shards, checked against what the configuration asks for,
// under their native names.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/expected_tensors.h"
#include "checkpoint/files/shards.h"
#include "checkpoint/model_config.h"
#include "checkpoint/names.h"
#include "checkpoint/quant_config.h"
#include "tensor/tensor_view.h"

namespace inkstone::checkpoint {

struct Weight {
  TensorView data;  // as stored; the gate rows when `up` is there
  TensorView up;    // gate and up stored apart
  bool halves = false;
  TensorRole role = TensorRole::kPlain;
  // NVFP4 only:
  TensorView scales;
  TensorView scale2;      // F32 [E]
  TensorView scale2_up;   // where the up rows have factors of their own
  TensorView input_amax;  // BF16 [1], may be empty
};

struct Assembly {
  std::map<std::string, Weight, std::less<>> weights;
  // The few small tensors that could not stay in their file: misaligned ones, and factors that are stored as
  // divisors. Of a type that aligns every scalar.
  std::deque<std::vector<std::max_align_t>> owned;
  bool has_mtp = false;
  bool has_vision = false;
  bool has_audio = false;
};

struct AssemblyRules {
  std::string_view folder;  // for messages
  // From `hf_quant_config.json`, may be null. Types decide; a quantised tensor that it excludes is a fault.
  const QuantConfig* quant = nullptr;
  // Reads nothing of the payload, so that claims made there (`original_shape`) stay unchecked and divisors
  // unconverted.
  bool headers_only = false;
};

// Absent groups are dropped from `config` too, and layers whose tensors are of the other kind than it says
// follow the tensors (`spec/model.md` 2.2). One error names every fault. Views live as long as `shards` and
// the result.
Result<Assembly> assemble(ModelConfig& config, const std::vector<Shard>& shards, const AssemblyRules& rules);

}  // namespace inkstone::checkpoint
