// SPDX-License-Identifier: Apache-2.0
// backends/host/sample.h - the specification of ops/sample.h on host memory, one row at a time. Time per
// row is linear in the vocabulary: filters select, they never sort.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "ops/sample.h"

namespace inkstone::host {

// Workspace for drawing `num_parallel` rows at once.
std::int64_t sample_workspace_bytes(std::int64_t num_parallel, std::int64_t num_valid);

// Draws all rows, as many at once as the workspace has room for and the pool has threads. Results do not
// depend on either. `pool` may be null: the caller draws.
void sample(const ops::SampleArgs& args, ThreadPool* pool);

}  // namespace inkstone::host
