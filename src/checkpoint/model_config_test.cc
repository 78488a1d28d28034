// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_config.h"

#include <gtest/gtest.h>

namespace inkstone::checkpoint {
namespace {

TEST(ModelConfig, RefusesTextThatIsNoObject) {
  EXPECT_FALSE(parse_model_config("[]"));
  EXPECT_FALSE(parse_model_config("{\"text_config\": 3}"));
}

}  // namespace
}  // namespace inkstone::checkpoint
