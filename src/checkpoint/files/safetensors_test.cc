// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/files/safetensors.h"

#include <gtest/gtest.h>

namespace inkstone::checkpoint {
namespace {

TEST(Safetensors, RefusesAnEmptyFile) { EXPECT_FALSE(parse_safetensors({}, "x.safetensors")); }

}  // namespace
}  // namespace inkstone::checkpoint
