// SPDX-License-Identifier: Apache-2.0
// tensor/scalar_types.h - the number types of weights, activations and state, and exact conversions between
// them.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace inkstone {

enum class ScalarType : std::uint8_t { kF32, kBF16, kF8E4M3, kU8, kI32, kI64 };

constexpr std::int64_t size_bytes(ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
    case ScalarType::kI32:
      return 4;
    case ScalarType::kBF16:
      return 2;
    case ScalarType::kF8E4M3:
    case ScalarType::kU8:
      return 1;
    case ScalarType::kI64:
      return 8;
  }
  return 0;
}

// The spelling of safetensors headers: "F32", "BF16", "F8_E4M3", "U8", "I32", "I64".
std::string_view name(ScalarType type);

// The upper half of a float. Widening is exact.
struct BFloat16 {
  std::uint16_t bits = 0;
};

constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// Nearest, ties to even; NaN stays NaN (quiet), overflow becomes infinity.
constexpr BFloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
}

// E4M3 (fn): bias 7, subnormals m * 2^-9, largest 448, 0x7f and 0xff are NaN. `checkpoint.md` 5.3.
float e4m3_to_float(std::uint8_t code);
// Nearest, ties to even, saturating at 448; NaN gives 0x7f.
std::uint8_t float_to_e4m3(float value);

// E2M1: the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6; bit 3 is the sign. Only the low four bits of `code` count.
float e2m1_to_float(std::uint8_t code);
// Nearest, ties to the code with an even last bit, saturating at 6; the sign of zero is kept.
std::uint8_t float_to_e2m1(float value);

}  // namespace inkstone
