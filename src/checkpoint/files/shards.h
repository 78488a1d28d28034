// SPDX-License-Identifier: Apache-2.0
// checkpoint/files/shards.h - the safetensors files of a folder, mapped, with their headers read and compared
// with the index.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/files/mapped_file.h"
#include "checkpoint/files/safetensors.h"

namespace inkstone::checkpoint {

struct Shard {
  std::string file;  // name inside the folder
  MappedFile mapping;
  std::vector<StoredTensor> tensors;
};

// With `model.safetensors.index.json`: the files it names, and `mtp.safetensors` where it names none of its
// tensors but the file is there. Without: every `*.safetensors` file of the folder. The order of files and of
// tensors in them means nothing. One error names every file and tensor on which index and headers disagree
// and every tensor that stands in two places.
Result<std::vector<Shard>> open_shards(const std::string& folder);

}  // namespace inkstone::checkpoint
