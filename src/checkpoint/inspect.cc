// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/inspect.h"

#include <fmt/format.h>

#include "checkpoint/assembly.h"
#include "checkpoint/files/json_text.h"
#include "checkpoint/files/shards.h"

namespace inkstone::checkpoint {
namespace {

void list_tensors(const std::vector<Shard>& shards, Inspection& inspection) {
  inspection.files = static_cast<std::int64_t>(shards.size());
  for (const Shard& shard : shards)
    for (const StoredTensor& tensor : shard.tensors) {
      const auto bytes = static_cast<std::int64_t>(tensor.end - tensor.begin);
      inspection.tensors.push_back({tensor.name, shard.file, tensor.dtype, tensor.shape, bytes});
      DtypeTotal& total = inspection.by_dtype[tensor.dtype];
      ++total.tensors;
      total.elements += tensor.shape.num_elements();
      total.bytes += bytes;
      inspection.bytes += bytes;
    }
}

void describe(const Assembly& assembly, Inspection& inspection) {
  inspection.has_mtp = assembly.has_mtp;
  inspection.has_vision = assembly.has_vision;
  inspection.has_audio = assembly.has_audio;
  for (std::int64_t layer = 0; layer < inspection.config.num_layers(); ++layer) {
    const auto found =
        assembly.weights.find(fmt::format("model.llm.layers.{}.mlp.experts.w13_weight", layer));
    if (found != assembly.weights.end() && found->second.data.type == ScalarType::kU8)
      inspection.quantised_layers.push_back(layer);
  }
}

}  // namespace

Result<Inspection> inspect(const std::string& folder) {
  Inspection inspection;
  inspection.config = INK_TRY(parse_model_config(INK_TRY(read_text_file(folder + "/config.json"))));
  const std::vector<Shard> shards = INK_TRY(open_shards(folder));
  list_tensors(shards, inspection);
  const auto quant = read_quant_config(folder);
  if (!quant) {
    inspection.problem = quant.error().message;
    return inspection;
  }
  const auto assembly =
      assemble(inspection.config, shards, {folder, *quant ? &**quant : nullptr, /*headers_only=*/true});
  if (assembly)
    describe(*assembly, inspection);
  else
    inspection.problem = assembly.error().message;
  return inspection;
}

}  // namespace inkstone::checkpoint
