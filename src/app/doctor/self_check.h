// SPDX-License-Identifier: Apache-2.0
// app/doctor/self_check.h - whether a backend computes what it should on this machine, in a moment and
// without a model.
#pragma once

#include "base/result.h"
#include "ops/backend.h"

namespace inkstone::app {

// One product of a matrix with rows of small whole numbers, whose result every number type holds exactly.
// The error names the first wrong element.
Status check_product(ops::Backend& backend);
// Likewise with NVFP4 weights of all codes.
Status check_nvfp4_product(ops::Backend& backend);

}  // namespace inkstone::app
