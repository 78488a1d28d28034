// SPDX-License-Identifier: Apache-2.0
// bench/cpu/ops_bench.h - single operations at Inkling-Small's shapes on the CPU backend.
#pragma once

#include <string>
#include <vector>

#include "bench/cpu/machine_rates.h"

namespace inkstone::bench {

struct OpRow {
  std::string name;
  double flops = 0;
  double bytes = 0;  // of weights, as stored, or of keys and values
  Timings op;
  Timings read;  // of as many bytes, between the runs
  Timings peer;  // as many flops by OpenBLAS, for products of many rows; may be empty
};

// Family: "linear", "moe", "attention", or empty for all.
std::vector<OpRow> bench_ops(const std::string& family, int threads);

}  // namespace inkstone::bench
