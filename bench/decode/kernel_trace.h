// SPDX-License-Identifier: Apache-2.0
// bench/decode/kernel_trace.h - which kernels ran and how long, from CUPTI where the machine has it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace inkstone::bench {

struct KernelTime {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
};

struct KernelTrace {
  std::vector<KernelTime> kernels;  // the longest first
  double span_seconds = 0;          // from the first kernel's start to the last one's end
  std::string problem;              // why there are none
};

// Runs `work`, which waits for what it enqueued, and sums the kernels of this process by name. One at a time.
KernelTrace trace_kernels(const std::function<void()>& work);

}  // namespace inkstone::bench
