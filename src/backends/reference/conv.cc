// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/host/rows.h"
#include "backends/reference/reference_backend.h"

namespace inkstone::reference {

using host::load_row;
using host::rounded;
using host::scalar;
using host::store_row;
namespace {

// The inputs of one sequence over [first - (W - 1), first + rows): older rows from the state, zeros before
// the start.
std::vector<float> inputs(const ops::ShortConvArgs& args, std::int64_t sequence, std::int64_t begin,
                          std::int64_t end) {
  const std::int64_t older = args.weight.shape[1] - 1;
  const std::int64_t first = args.rows.first_position.as<std::int32_t>()[sequence];
  const auto channels = static_cast<std::size_t>(args.x.shape[1]);
  std::vector<float> rows(static_cast<std::size_t>(older + end - begin) * channels, 0.0F);
  for (std::int64_t i = 0; i < older; ++i) {
    const std::int64_t position = first - older + i;
    const std::int64_t index = position < 0 ? -1 : row_index(args.state, sequence, position);
    if (index >= 0) {
      load_row(args.state.storage, index,
               std::span(rows).subspan(static_cast<std::size_t>(i) * channels, channels));
    }
  }
  for (std::int64_t t = begin; t < end; ++t) {
    load_row(args.x, t,
             std::span(rows).subspan(static_cast<std::size_t>(older + t - begin) * channels, channels));
  }
  return rows;
}

void store_state(const ops::ShortConvArgs& args, std::int64_t sequence, std::int64_t begin,
                 std::int64_t end) {
  const std::int64_t kept = std::min(end - begin, args.state.ring_rows - (args.weight.shape[1] - 1));
  std::vector<float> row(static_cast<std::size_t>(args.x.shape[1]));
  const std::int64_t first = args.rows.first_position.as<std::int32_t>()[sequence];
  for (std::int64_t t = end - kept; t < end; ++t) {
    const std::int64_t index = row_index(args.state, sequence, first + t - begin);
    if (index < 0) continue;
    load_row(args.x, t, row);
    store_row(args.state.storage, index, row);
  }
}

}  // namespace

void ReferenceBackend::short_conv(const ops::ShortConvArgs& args, ops::Stream&) {
  check(args);
  const std::int64_t taps = args.weight.shape[1];
  const std::int64_t channels = args.x.shape[1];
  std::vector<float> weight(static_cast<std::size_t>(args.weight.shape.num_elements()));
  load_row(args.weight.reshaped({1, args.weight.shape.num_elements()}), 0, weight);
  const auto* row_begin = args.rows.row_begin.as<std::int32_t>();
  for (std::int64_t sequence = 0; sequence < args.rows.num_sequences(); ++sequence) {
    const std::int64_t begin = row_begin[sequence];
    const std::int64_t end = row_begin[sequence + 1];
    const std::vector<float> x = inputs(args, sequence, begin, end);
    pool_.parallel_for(end - begin, 16, [&](std::int64_t from, std::int64_t to) {
      std::vector<float> out(static_cast<std::size_t>(channels));
      for (std::int64_t t = from; t < to; ++t) {
        for (std::int64_t c = 0; c < channels; ++c) {
          float sum = 0;
          for (std::int64_t k = 0; k < taps; ++k) {
            sum += weight[static_cast<std::size_t>(c * taps + k)] *
                   x[static_cast<std::size_t>((t + k) * channels + c)];
          }
          out[static_cast<std::size_t>(c)] = x[static_cast<std::size_t>((t + taps - 1) * channels + c)] + sum;
        }
        store_row(args.out, begin + t, out);
      }
    });
    store_state(args, sequence, begin, end);
  }
}

}  // namespace inkstone::reference
