// SPDX-License-Identifier: Apache-2.0
// app/eval/make_sets.h - task sets made by the program: needles, and the rows of public suites. Every set
// appears whole or not at all.
#pragma once

#include "app/options.h"
#include "base/result.h"

namespace inkstone::app {

// One file for each length: needle_LENGTH.jsonl, with LENGTH as the user wrote it.
Status make_needles(const EvalOptions& options);

// One file, named after the suite's. Prints how many rows it holds, and names those that it does not.
Status adapt_suite(const EvalOptions& options);

}  // namespace inkstone::app
