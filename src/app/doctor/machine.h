// SPDX-License-Identifier: Apache-2.0
// app/doctor/machine.h - what the machine offers, found out at run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace inkstone::app {

struct Machine {
  std::string cpu;                        // the model's name; "unknown" where the system does not say
  std::vector<std::string> instructions;  // sets that matter to us and that this process may use
  int threads = 1;                        // CPUs that this process may run on
  std::int64_t memory_bytes = 0;          // of the machine, or the smaller limit of the control group
  std::int64_t available_bytes = 0;       // free or quickly freed; 0 where the system does not say
  std::int64_t nvidia_gpus = 0;           // that the driver sees
};

Machine look_at_machine();

}  // namespace inkstone::app
