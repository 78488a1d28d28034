// SPDX-License-Identifier: Apache-2.0
// The numbers of `serving.md` 1.1 and 1.7 for the released Inkling, from its configuration.
#include "cache/memory_plan.h"

#include <gtest/gtest.h>

#include "checkpoint/expected_tensors.h"

namespace inkstone::cache {
namespace {

using checkpoint::ExpectedTensor;
using checkpoint::ModelConfig;
using checkpoint::TensorGroup;

// `model.md` 2.1.
ModelConfig inkling() {
  ModelConfig config;
  config.width = 6144;
  config.vocabulary = 201024;
  config.valid_vocabulary = 200058;
  config.context = 1048576;
  config.sliding = {64, 16, 128, 512, 512};
  config.global = {64, 8, 128, 0, 1024};
  config.d_rel = 16;
  for (int layer = 0; layer < 66; ++layer) config.layer_is_sliding.push_back(layer % 6 != 5);
  config.dense_layers = 2;
  config.dense_width = 24576;
  config.expert_width = 3072;
  config.routed_experts = 256;
  config.shared_experts = 2;
  config.chosen_experts = 6;
  for (int depth = 0; depth < 8; ++depth) config.mtp_is_sliding.push_back(depth != 1 && depth != 3);
  config.mtp_window = 512;
  return config;
}

std::int64_t bytes_of(const StatePlan& plan, std::int64_t window, bool looks_ahead) {
  std::int64_t bytes = 0;
  for (const StatePart& part : plan.parts)
    if (part.window == window && part.looks_ahead == looks_ahead) bytes += part.bytes;
  return bytes;
}

TEST(MemoryPlan, StateOfAMillionTokensOnOneOfEightRanks) {
  const model::StateSpec spec = model::make_state_spec(inkling(), {ScalarType::kBF16, 8, 8});
  const StatePlan plan = plan_state(spec, 1048576, 1);
  EXPECT_EQ(bytes_of(plan, 0, false), 5'905'580'032);
  EXPECT_EQ(bytes_of(plan, 0, true), 1'073'741'824);
  EXPECT_EQ(bytes_of(plan, 512, false), 32'440'320);
  EXPECT_EQ(bytes_of(plan, 4, false), 4'235'264);
}

TEST(MemoryPlan, PartsAddUpAndScaleWithSequences) {
  const model::StateSpec spec = model::make_state_spec(inkling(), {ScalarType::kBF16, 8, 8});
  const StatePlan plan = plan_state(spec, 64, 3);
  std::int64_t sum = 0;
  for (const StatePart& part : plan.parts) sum += part.bytes;
  EXPECT_EQ(sum, plan.bytes);
  EXPECT_EQ(plan.bytes, 64 * spec.paged_bytes_per_token() + 3 * spec.ring_bytes_per_sequence());
  EXPECT_EQ(plan_state(spec, 1, 3).bytes, plan.bytes) << "tokens come in pages";
}

// NVFP4: two codes a byte and a scale byte per 16 columns; experts of the first mixture layer stay BF16.
WeightTensor released_nvfp4(const ExpectedTensor& tensor) {
  const bool experts = checkpoint::may_be_quantised(tensor.role) && tensor.shape[0] == 256 &&
                       tensor.name.find("layers.2.") == std::string::npos;
  const std::int64_t elements = tensor.shape.num_elements();
  WeightTensor weight;
  weight.bytes = experts ? elements / 2 + elements / 16 : 2 * elements;
  if (tensor.role == checkpoint::TensorRole::kRouter) weight.bytes = 4 * elements;
  weight.divided = tensor.shape.rank() > 1 && tensor.role != checkpoint::TensorRole::kRouter;
  return weight;
}

TEST(MemoryPlan, WeightsAreTheShareThatServingNames) {
  std::vector<WeightTensor> tensors;
  for (const ExpectedTensor& tensor : checkpoint::expected_tensors(inkling()))
    if (tensor.group == TensorGroup::kTrunk || tensor.group == TensorGroup::kMtp)
      tensors.push_back(released_nvfp4(tensor));
  EXPECT_NEAR(static_cast<double>(weight_share(tensors, 1)), 591.8e9, 0.01 * 591.8e9);
  EXPECT_NEAR(static_cast<double>(weight_share(tensors, 8)), 74.0e9, 0.01 * 74.0e9);
  EXPECT_NEAR(static_cast<double>(weight_share(tensors, 4)), 148.0e9, 0.01 * 148.0e9);
}

}  // namespace
}  // namespace inkstone::cache
