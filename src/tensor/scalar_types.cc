// SPDX-License-Identifier: Apache-2.0
#include "tensor/scalar_types.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace inkstone {

std::string_view name(ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
      return "F32";
    case ScalarType::kBF16:
      return "BF16";
    case ScalarType::kF8E4M3:
      return "F8_E4M3";
    case ScalarType::kU8:
      return "U8";
    case ScalarType::kI32:
      return "I32";
    case ScalarType::kI64:
      return "I64";
  }
  return "?";
}

float e4m3_to_float(std::uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::uint8_t float_to_e4m3(float value) {
  if (std::isnan(value)) return 0x7f;
  const std::uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude >= 448.0F) return sign | 0x7e;
  // The distance between neighbours: 2^-9 below 2^-6, else 2^(exponent - 3).
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int step = std::max(exponent - 1, -6) - 3;
  const float steps = std::nearbyint(std::ldexp(magnitude, -step));  // default rounding mode: ties to even
  const float rounded = std::ldexp(steps, step);
  if (rounded >= 448.0F) return sign | 0x7e;
  if (rounded < std::ldexp(1.0F, -6)) return sign | static_cast<std::uint8_t>(std::ldexp(rounded, 9));
  std::frexp(rounded, &exponent);
  const int mantissa = static_cast<int>(std::ldexp(rounded, 4 - exponent)) - 8;
  return static_cast<std::uint8_t>(sign | ((exponent + 6) << 3) | mantissa);
}

float e2m1_to_float(std::uint8_t code) {
  constexpr std::array<float, 8> kMagnitudes = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kMagnitudes[code & 7];
  return (code & 8) != 0 ? -magnitude : magnitude;
}

std::uint8_t float_to_e2m1(float value) {
  // Midpoints between neighbours; a midpoint belongs to the code with an even last bit.
  constexpr std::array<float, 7> kMidpoints = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
  const float magnitude = std::fabs(value);
  std::uint8_t code = 0;
  for (std::uint8_t i = 0; i < 7; ++i) {
    const bool up = (i & 1) != 0 ? magnitude >= kMidpoints[i] : magnitude > kMidpoints[i];
    if (up) code = static_cast<std::uint8_t>(i + 1);
  }
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

}  // namespace inkstone
