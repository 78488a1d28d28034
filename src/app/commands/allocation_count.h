// SPDX-License-Identifier: Apache-2.0
// app/commands/allocation_count.h - how often this process has taken memory with operator new.
#pragma once

#include <cstdint>

namespace inkstone::app {

// Since the start, of all threads. A program that uses this replaces operator new by one that counts.
std::int64_t count_allocations();

}  // namespace inkstone::app
