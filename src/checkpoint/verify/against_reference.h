// SPDX-License-Identifier: Apache-2.0
// checkpoint/verify/against_reference.h - NVFP4 weights held against the BF16 weights they were made from.
// Names, shapes and types do not tell in which order a file keeps its block scales; the values do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace inkstone::checkpoint {

struct BankDifference {
  std::string name;             // native, of the fused tensor: "model.llm.layers.3.mlp.experts.w13_weight"
  std::int64_t weights = 0;     // that were compared
  std::int64_t beyond = 0;      // of these, farther from the reference than rounding to a code can take them
  double relative_error = 0.0;  // root mean square of the differences over that of the reference
};

// Every NVFP4 bank of `quantised` against the same bank of `reference`, by a sample: up to 8 experts of a
// bank and 64 rows of each, evenly spread. A code is the nearest of its grid, whose widest gap is 2 units (4
// to 6), so it is at most 1 unit off: the unit is the block's scale, itself rounded to E4M3 from amax / 6.
// Where the amax lies above 6 units, E4M3 has rounded the scale down by at most 1/16, or in its subnormal
// range by at most 2^-10, which puts a weight at most 6/16 of a unit, or 6 * 2^-10 * scale2, beyond the last
// code. Errors: a reference without BF16 weights, or of another shape.
Result<std::vector<BankDifference>> compare_with_reference(const Checkpoint& quantised,
                                                           const Checkpoint& reference);

}  // namespace inkstone::checkpoint
