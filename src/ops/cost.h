// SPDX-License-Identifier: Apache-2.0
// ops/cost.h - what an operation must do at least: for benches and live profiles.
#pragma once

namespace inkstone::ops {

struct Cost {
  double flops = 0;
  double bytes = 0;  // each input read once, each output written once
};

}  // namespace inkstone::ops
