// SPDX-License-Identifier: Apache-2.0
// checkpoint/inspect.h - what a checkpoint folder holds, from its headers alone: no byte of any weight is
// read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "tensor/tensor_view.h"

namespace inkstone::checkpoint {

struct InspectedTensor {
  std::string name;  // as stored
  std::string file;
  std::string dtype;  // as spelled in the header
  Shape shape;
  std::int64_t bytes = 0;
};

struct DtypeTotal {
  std::int64_t tensors = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
};

struct Inspection {
  ModelConfig config;  // without the heads and towers that the folder lacks
  bool has_mtp = false;
  bool has_vision = false;
  bool has_audio = false;
  std::int64_t files = 0;
  std::int64_t bytes = 0;                // of all tensors
  std::vector<InspectedTensor> tensors;  // by file, then in the order of their bytes
  std::map<std::string, DtypeTotal> by_dtype;
  std::vector<std::int64_t> quantised_layers;  // trunk layers with NVFP4 experts, ascending
  // Why open() would refuse the folder, in its words; empty when nothing in configuration and headers is
  // wrong.
  std::string problem;
};

// Fails only where there is nothing to show: no readable configuration, index or header.
Result<Inspection> inspect(const std::string& folder);

}  // namespace inkstone::checkpoint
