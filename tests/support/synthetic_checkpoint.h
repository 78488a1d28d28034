// SPDX-License-Identifier: Apache-2.0
// tests/support/synthetic_checkpoint.h - checkpoints of any configuration: the real models as sparse files
// (headers written, payload a hole), small ones with random weights that a model can run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/files/safetensors_writer.h"
#include "checkpoint/model_config.h"

namespace inkstone::test_support {

struct SyntheticModel {
  checkpoint::ModelConfig config;
  std::vector<Shape> vision_linear;  // [out, in] of each stage of the vision tower
};

// The released models, number for number (`spec/checkpoint.md` 2).
SyntheticModel inkling();
SyntheticModel inkling_small();
// The ratios of the large one (8 key/value heads on global and 16 on sliding layers, 258 gate rows, dense
// layers 0 and 1, BF16 experts in layer 2 of an NVFP4 checkpoint, 8 heads), everything else small: 9 layers
// of width 64, two of them global; about 24 MB in BF16.
SyntheticModel real_ratios();

enum class Precision { kBf16, kNvfp4 };

struct SyntheticOptions {
  Precision precision = Precision::kBf16;
  bool sparse = false;     // leave every large payload a hole
  std::uint64_t seed = 1;  // of the weights; equal seeds give equal bytes
  int shards = 1;
};

// All tensors of the layout, in the order of `spec/checkpoint.md` 3.
std::vector<checkpoint::TensorToWrite> synthetic_tensors(const SyntheticModel& model, Precision precision);

// `config.json` in the native dialect.
std::string config_json(const checkpoint::ModelConfig& config);

// config.json, shards, mtp.safetensors, index and, for NVFP4, hf_quant_config.json into the new folder
// `folder`. No tokenizer: the vocabulary has no words.
Status write_synthetic(const SyntheticModel& model, const SyntheticOptions& options,
                       const std::string& folder);

}  // namespace inkstone::test_support
