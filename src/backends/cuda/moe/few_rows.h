// SPDX-License-Identifier: Apache-2.0
// backends/cuda/moe/few_rows.h - a mixture of up to eight rows, whose assignments seldom share an expert: the
// bits of the kernels for many rows, without tables.
#pragma once

#include "backends/cuda/launch.h"
#include "ops/moe.h"

namespace inkstone::cuda {

bool takes_few_rows(const ops::MoeArgs& args);
void moe_few_rows(const ops::MoeArgs& args, const Launch& launch);

}  // namespace inkstone::cuda
