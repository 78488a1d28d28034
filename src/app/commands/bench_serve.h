// SPDX-License-Identifier: Apache-2.0
// app/commands/bench_serve.h - what the server costs by itself, under load from this process.
#pragma once

#include "app/options.h"
#include "base/result.h"

namespace inkstone::app {

// Before the process has a second thread.
Status bench_stub_server(const BenchOptions& options);

}  // namespace inkstone::app
