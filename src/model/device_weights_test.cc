// SPDX-License-Identifier: Apache-2.0
#include "model/device_weights.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/mini_model.h"

namespace inkstone::model {
namespace {

// The numbers of a matrix, row by row, whatever its strides.
std::vector<std::byte> contents(const MatrixBank& bank) {
  std::vector<std::byte> all;
  const auto put = [&](const void* from, std::int64_t bytes) {
    const auto* begin = static_cast<const std::byte*>(from);
    all.insert(all.end(), begin, begin + bytes);
  };
  for (std::int64_t b = 0; b < bank.banks; ++b) {
    for (std::int64_t r = 0; r < bank.rows; ++r) {
      put(bank.row(b, r), bank.quantised() ? bank.columns / 2 : bank.columns * size_bytes(bank.type));
      if (bank.quantised()) put(bank.scale_row(b, r), bank.columns / MatrixBank::kColumnsPerScale);
    }
  }
  if (bank.scale2 != nullptr) put(bank.scale2, bank.banks * 4);
  if (bank.input_amax != nullptr) put(bank.input_amax, 2);
  return all;
}

std::vector<std::vector<std::byte>> contents(ModelWeights weights) {
  std::vector<std::vector<std::byte>> all;
  for_each_weight(
      weights,
      [&](TensorView& view) {
        ASSERT_TRUE(view.contiguous());
        all.emplace_back(view.data, view.data + view.bytes());
      },
      [&](MatrixBank& bank) { all.push_back(contents(bank)); });
  return all;
}

class DeviceWeightsOf : public ::testing::TestWithParam<std::string> {};

TEST_P(DeviceWeightsOf, HoldTheSameNumbersAtAlignedPlaces) {
  const testing::MiniModel mini(GetParam());
  auto made = upload_weights(mini.weights, *mini.backend);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->bytes, device_bytes(mini.weights));
  EXPECT_EQ(contents(made->weights), contents(mini.weights));
  for_each_weight(
      made->weights,
      [&](TensorView& view) { EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % 16, 0U); },
      [&](MatrixBank& bank) { EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bank.data) % 16, 0U); });
}

TEST_P(DeviceWeightsOf, TakeEveryNumberOnce) {
  const testing::MiniModel mini(GetParam());
  // The halves of fused tensors share their bytes; nothing is kept twice, padding of 256 bytes a tensor
  // apart.
  EXPECT_LE(device_bytes(mini.weights), mini.checkpoint->tensor_bytes() + 256 * 400);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, DeviceWeightsOf,
                         ::testing::Values("inkling-mini", "inkling-mini-nvfp4"),
                         [](const auto& info) { return info.param == "inkling-mini" ? "Bf16" : "Nvfp4"; });

// Larger than both staging buffers together, so that each is used again.
TEST(DeviceWeights, AreStreamedInParts) {
  const testing::MiniModel mini;
  std::vector<std::uint32_t> numbers((std::size_t{40} << 20) / 4 + 3);
  std::mt19937 random(3);
  for (std::uint32_t& number : numbers) number = static_cast<std::uint32_t>(random());
  ModelWeights weights;
  weights.embed = TensorView(numbers.data(), ScalarType::kF32, {static_cast<std::int64_t>(numbers.size())});
  std::vector<std::int64_t> reported;
  auto made = upload_weights(weights, *mini.backend, [&](std::int64_t bytes) { reported.push_back(bytes); });
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(std::memcmp(made->weights.embed.data, numbers.data(), numbers.size() * 4), 0);
  ASSERT_EQ(reported.size(), 3U);
  EXPECT_EQ(reported.back(), static_cast<std::int64_t>(numbers.size() * 4));
}

}  // namespace
}  // namespace inkstone::model
