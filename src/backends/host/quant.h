// SPDX-License-Identifier: Apache-2.0
// backends/host/quant.h - the rounding of one row of activations to NVFP4.
#pragma once

#include <span>

namespace inkstone::host {

// ops/quant.h; `out` may be `x`.
void round_nvfp4_row(std::span<const float> x, float input_amax, std::span<float> out);

}  // namespace inkstone::host
