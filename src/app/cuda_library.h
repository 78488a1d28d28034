// SPDX-License-Identifier: Apache-2.0
// app/cuda_library.h - the CUDA backend, loaded at run time where it lies beside the program.
#pragma once

#include "backends/cuda/library.h"
#include "base/result.h"

namespace inkstone::app {

// Looks in lib/ beside the program and in ../lib/inkstone, once; stays loaded until exit. kUnsupported says
// why there is none. Any thread.
Result<const cuda::Library*> load_cuda_library();

}  // namespace inkstone::app
