// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "backends/host/host_backend.h"
#include "backends/host/rows.h"

namespace inkstone::host {

void HostBackend::store_kv(const ops::StoreKvArgs& args, ops::Stream&) {
  check(args);
  const std::int64_t head_dim = args.k.shape[2];
  std::vector<float> row(static_cast<std::size_t>(args.k.row_elements()));
  const TensorView flat =
      args.state.storage.reshaped({args.state.storage.rows(), args.state.storage.row_elements()});
  for (std::int64_t t = 0; t < args.k.rows(); ++t) {
    const std::int64_t sequence = args.rows.row_sequence.as<std::int32_t>()[t];
    if (sequence < 0) continue;
    const std::int64_t last = args.rows.row_begin.as<std::int32_t>()[sequence + 1] - 1;
    if (!args.state.paged() && last - t >= args.state.ring_rows) continue;
    const std::int64_t index = row_index(args.state, sequence, args.rows.row_position.as<std::int32_t>()[t]);
    if (index < 0) continue;
    for (const int which : {0, 1}) {
      load_row(which == 0 ? args.k : args.v, t, row);
      for (std::int64_t head = 0; head < args.k.shape[1]; ++head) {
        store_row(flat.columns_at((head * 2 + which) * head_dim, head_dim), index,
                  std::span(row).subspan(static_cast<std::size_t>(head * head_dim),
                                         static_cast<std::size_t>(head_dim)));
      }
    }
  }
}

}  // namespace inkstone::host
