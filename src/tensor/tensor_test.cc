// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tensor/scalar_types.h"
#include "tensor/tensor_view.h"

namespace inkstone {
namespace {

TEST(BFloat16, RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(to_bfloat16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.00390625F).bits, 0x3f80);  // halfway between 1 and 1 + 2^-7: the even one
  EXPECT_EQ(to_bfloat16(1.01171875F).bits, 0x3f82);  // halfway, upwards
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(to_float(to_bfloat16(std::numeric_limits<float>::max()))));
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(value))) continue;
    EXPECT_EQ(to_bfloat16(to_float(value)).bits, bits);
  }
}

TEST(E4M3, EveryCodeSurvivesTheRoundTrip) {
  EXPECT_EQ(e4m3_to_float(0x7e), 448.0F);
  EXPECT_EQ(e4m3_to_float(0x01), std::ldexp(1.0F, -9));
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<std::uint8_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_e4m3(value), code);
  }
}

TEST(E4M3, IsTheNearestCodeWithTiesToEven) {
  for (int code = 0; code < 0x7e; ++code) {
    const float low = e4m3_to_float(static_cast<std::uint8_t>(code));
    const float high = e4m3_to_float(static_cast<std::uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_e4m3(middle), (code & 1) == 0 ? code : code + 1);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, low)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, high)), code + 1);
  }
  EXPECT_EQ(float_to_e4m3(1e9F), 0x7e);
}

TEST(E2M1, IsTheNearestCodeWithTiesToEven) {
  for (std::uint8_t code = 0; code < 7; ++code) {
    const float low = e2m1_to_float(code);
    const float high = e2m1_to_float(static_cast<std::uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_e2m1(middle), (code & 1) == 0 ? code : code + 1);
    EXPECT_EQ(float_to_e2m1(-middle), ((code & 1) == 0 ? code : code + 1) | 8);
    EXPECT_EQ(float_to_e2m1(std::nextafter(middle, high)), code + 1);
  }
  EXPECT_EQ(float_to_e2m1(100.0F), 7);
}

TEST(TensorView, SlicesRowsAndColumnsWithoutCopying) {
  std::vector<float> numbers(12);
  for (int i = 0; i < 12; ++i) numbers[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const TensorView all(numbers.data(), ScalarType::kF32, {3, 4});
  const TensorView columns = all.columns_at(1, 2);
  EXPECT_FALSE(columns.contiguous());
  EXPECT_EQ(columns.row<float>(2)[1], 10.0F);
  EXPECT_EQ(all.rows_at(1, 2).row<float>(0)[0], 4.0F);
  EXPECT_EQ(columns.reshaped({3, 2, 1}).row<float>(1)[0], 5.0F);
  EXPECT_EQ(all.entry(2).as<float>()[3], 11.0F);
}

}  // namespace
}  // namespace inkstone
