// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels.h"

namespace inkstone::cpu {
namespace {

// The input row of position first + offset of a sequence: the batch's own, the state's, or none before the
// start.
struct Inputs {
  const ops::ShortConvArgs& args;
  std::int64_t sequence;
  std::int64_t first;  // position of the first row
  std::int64_t begin;  // row of the batch

  [[nodiscard]] const float* at(std::int64_t offset) const {
    if (offset >= 0) return args.x.row<float>(begin + offset);
    if (first + offset < 0) return nullptr;
    const std::int64_t index = row_index(args.state, sequence, first + offset);
    return index < 0 ? nullptr : args.state.storage.row<float>(index);
  }
};

// Filters as rows of one tap each.
void widen_filters(const TensorView& weight, AlignedFloats& out) {
  const std::int64_t channels = weight.shape[0];
  const std::int64_t taps = weight.shape[1];
  out.resize(static_cast<std::size_t>(channels * taps));
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t k = 0; k < taps; ++k) {
      out[static_cast<std::size_t>(k * channels + c)] = to_float(weight.row<BFloat16>(c)[k]);
    }
  }
}

void store_state(const ops::ShortConvArgs& args, std::int64_t sequence, std::int64_t begin,
                 std::int64_t end) {
  const std::int64_t kept = std::min(end - begin, args.state.ring_rows - (args.weight.shape[1] - 1));
  const std::int64_t first = args.rows.first_position.as<std::int32_t>()[sequence];
  for (std::int64_t t = end - kept; t < end; ++t) {
    const std::int64_t index = row_index(args.state, sequence, first + t - begin);
    if (index < 0) continue;
    std::memcpy(args.state.storage.row<float>(index), args.x.row<float>(t),
                static_cast<std::size_t>(args.x.shape[1]) * sizeof(float));
  }
}

}  // namespace

void CpuBackend::short_conv(const ops::ShortConvArgs& args, ops::Stream&) {
  check(args);
  INK_CHECK(args.x.type == ScalarType::kF32, "the CPU backend computes on f32 activations");
  const std::int64_t taps = args.weight.shape[1];
  const std::int64_t channels = args.x.shape[1];
  widen_filters(args.weight, gate_);
  const auto* row_begin = args.rows.row_begin.as<std::int32_t>();
  for (std::int64_t sequence = 0; sequence < args.rows.num_sequences(); ++sequence) {
    const Inputs inputs{args, sequence, args.rows.first_position.as<std::int32_t>()[sequence],
                        row_begin[sequence]};
    const std::int64_t num_rows = row_begin[sequence + 1] - row_begin[sequence];
    const std::int64_t grain = std::max<std::int64_t>(1, 100'000 / (channels * taps));
    pool_.parallel_for_worker(num_rows, grain, [&](int worker, std::int64_t from, std::int64_t to) {
      std::vector<const float*>& rows = scratch_[static_cast<std::size_t>(worker)].pointers;
      rows.resize(static_cast<std::size_t>(taps));
      for (std::int64_t t = from; t < to; ++t) {
        for (std::int64_t k = 0; k < taps; ++k)
          rows[static_cast<std::size_t>(k)] = inputs.at(t - (taps - 1) + k);
        convolve({rows.data(), gate_.data(), taps, channels, args.out.row<float>(inputs.begin + t)});
      }
    });
    store_state(args, sequence, row_begin[sequence], row_begin[sequence + 1]);
  }
}

}  // namespace inkstone::cpu
