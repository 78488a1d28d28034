// SPDX-License-Identifier: Apache-2.0
// backends/reference/silu.h - the activation of every MLP.
#pragma once

#include <cmath>

namespace inkstone::reference {

inline float silu(float value) { return value / (1.0F + std::exp(-value)); }

}  // namespace inkstone::reference
