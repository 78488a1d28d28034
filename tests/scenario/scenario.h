// SPDX-License-Identifier: Apache-2.0
// tests/scenario/scenario.h - scenario files: what clients do and what must come of it, line by line, against
// the loop with the toy model. The language is described in tests/scenario/README.md.
#pragma once

#include <string>

namespace inkstone::testing {

// Runs a file to its end; gives the first thing that was not as it must be, with its line, or nothing. Every
// answer is compared with the oracle's, and every step is followed by a check of all invariants.
std::string run_scenario(const std::string& path);

}  // namespace inkstone::testing
