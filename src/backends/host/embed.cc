// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/host/host_backend.h"
#include "backends/host/rows.h"

namespace inkstone::host {

void HostBackend::embed(const ops::EmbedArgs& args, ops::Stream&) {
  check(args);
  std::vector<float> row(static_cast<std::size_t>(args.table.shape[1]));
  for (std::int64_t t = 0; t < args.ids.rows(); ++t) {
    const std::int32_t id = args.ids.as<std::int32_t>()[t];
    INK_CHECK(id >= 0 && id < args.table.rows(), "token id within the table");
    load_row(args.table, id, row);
    store_row(args.out, t, row);
  }
}

void HostBackend::embed_sum(const ops::EmbedSumArgs& args, ops::Stream&) {
  check(args);
  const auto width = static_cast<std::size_t>(args.table.shape[1]);
  std::vector<float> row(width);
  std::vector<float> sum(width);
  for (std::int64_t t = 0; t < args.levels.rows(); ++t) {
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (std::int64_t bin = 0; bin < args.levels.shape[1]; ++bin) {
      load_row(args.table, bin * args.num_levels + args.levels.row<std::int32_t>(t)[bin], row);
      for (std::size_t i = 0; i < width; ++i) sum[i] += row[i];
    }
    store_row(args.out, t, sum);
  }
}

}  // namespace inkstone::host
