// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backends/host/rows.h"
#include "backends/reference/dot.h"
#include "backends/reference/reference_backend.h"

namespace inkstone::reference {

using host::load_row;
using host::rounded;
using host::scalar;
using host::store_row;

void ReferenceBackend::rms_norm(const ops::RmsNormArgs& args, ops::Stream&) {
  check(args);
  const std::int64_t size = args.weight.rows();
  std::vector<float> weight(static_cast<std::size_t>(size));
  load_row(args.weight.reshaped({1, size}), 0, weight);
  pool_.parallel_for(args.x.rows(), 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> row(static_cast<std::size_t>(args.x.row_elements()));
    for (std::int64_t t = begin; t < end; ++t) {
      load_row(args.x, t, row);
      for (std::int64_t head = 0; head < args.x.row_elements(); head += size) {
        float* x = row.data() + head;
        const float mean = dot(x, x, size) / static_cast<float>(size);
        const float inverse = 1.0F / std::sqrt(mean + args.eps);
        for (std::int64_t i = 0; i < size; ++i) x[i] = x[i] * inverse * weight[static_cast<std::size_t>(i)];
      }
      store_row(args.out, t, row);
      if (args.rest.empty()) continue;
      for (float& value : row) value -= rounded(value, args.out.type);
      store_row(args.rest, t, row);
    }
  });
}

}  // namespace inkstone::reference
