// SPDX-License-Identifier: Apache-2.0
// app/commands/bench_cpu.h - the kinds of `inkstone bench` that judge a backend on host memory by what the
// machine can do.
#pragma once

#include "app/options.h"
#include "base/result.h"

namespace inkstone::app {

// `what` is decode, prefill or ops.
Status bench_cpu(const BenchOptions& options);

}  // namespace inkstone::app
