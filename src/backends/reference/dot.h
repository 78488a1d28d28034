// SPDX-License-Identifier: Apache-2.0
// backends/reference/dot.h - the one order of every sum over K: sixteen interleaved partial sums, folded in
// halves.
#pragma once

#include <array>
#include <cstdint>

#include <span>
#include <vector>

#include "backends/host/rows.h"
#include "tensor/matrix_bank.h"
#include "tensor/scalar_types.h"

namespace inkstone::reference {

// Element i goes to partial sum i mod 16; then 8 + 8, 4 + 4, 2 + 2, 1 + 1. The order depends on n alone, and
// compilers can map it to vector registers without changing a bit.
class LaneSum {
 public:
  static constexpr std::int64_t kLanes = 16;

  template <class Term>
  static float sum(std::int64_t n, const Term& term) {
    std::array<float, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane)
        lanes[static_cast<std::size_t>(lane)] += term(i + lane);
    }
    for (std::int64_t lane = 0; i + lane < n; ++lane) lanes[static_cast<std::size_t>(lane)] += term(i + lane);
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) {
        lanes[static_cast<std::size_t>(lane)] += lanes[static_cast<std::size_t>(lane + half)];
      }
    }
    return lanes[0];
  }
};

inline float dot(const float* x, const float* w, std::int64_t n) {
  return LaneSum::sum(n, [&](std::int64_t i) { return x[i] * w[i]; });
}

inline float dot(const float* x, const BFloat16* w, std::int64_t n) {
  return LaneSum::sum(n, [&](std::int64_t i) { return x[i] * to_float(w[i]); });
}

// W[bank][row] . x
inline float weight_dot(const MatrixBank& weight, std::int64_t bank, std::int64_t row,
                        std::span<const float> x, std::vector<float>& scratch) {
  if (weight.type == ScalarType::kBF16) {
    return dot(x.data(), reinterpret_cast<const BFloat16*>(weight.row(bank, row)), weight.columns);
  }
  scratch.resize(static_cast<std::size_t>(weight.columns));
  host::load_weight_row(weight, bank, row, scratch);
  return dot(x.data(), scratch.data(), weight.columns);
}

}  // namespace inkstone::reference
