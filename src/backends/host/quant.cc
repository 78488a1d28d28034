// SPDX-License-Identifier: Apache-2.0
#include "backends/host/quant.h"

#include <algorithm>
#include <cmath>

#include "backends/host/host_backend.h"
#include "backends/host/rows.h"

namespace inkstone::host {

void round_nvfp4_row(std::span<const float> x, float input_amax, std::span<float> out) {
  constexpr std::size_t kBlock = MatrixBank::kColumnsPerScale;
  constexpr float kLargest = 6.0F * 448.0F;  // E2M1 times E4M3
  const float s_in = input_amax / kLargest;
  for (std::size_t begin = 0; begin < x.size(); begin += kBlock) {
    float largest = 0;
    for (std::size_t i = begin; i < begin + kBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float block_scale = e4m3_to_float(float_to_e4m3(largest / 6.0F / s_in));
    const float scale = block_scale * s_in;
    for (std::size_t i = begin; i < begin + kBlock; ++i) {
      out[i] = block_scale == 0.0F ? 0.0F : e2m1_to_float(float_to_e2m1(x[i] / scale)) * scale;
    }
  }
}

void HostBackend::round_nvfp4(const ops::RoundNvfp4Args& args, ops::Stream&) {
  check(args);
  std::vector<float> row(static_cast<std::size_t>(args.x.shape[1]));
  for (std::int64_t t = 0; t < args.x.rows(); ++t) {
    load_row(args.x, t, row);
    round_nvfp4_row(row, scalar(args.input_amax), row);
    store_row(args.out, t, row);
  }
}

}  // namespace inkstone::host
