// SPDX-License-Identifier: Apache-2.0
#include "ops/graph.h"

namespace inkstone::ops {

void Recordings::run(GraphOps& backend, const Key& key, std::int64_t version, Stream& stream,
                     const std::function<void()>& operations) {
  const auto [place, is_first] = recordings_.try_emplace(key);
  Recording& recording = place->second;
  const bool records = !recording.graph || recording.version != version;
  if (records) ++first_runs_;
  if (is_first) return operations();
  if (records) {
    recording.graph = backend.capture(stream, operations);
    recording.version = version;
  }
  recording.graph->replay(stream);
}

}  // namespace inkstone::ops
