// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>

#include "backends/host/rows.h"
#include "backends/reference/dot.h"
#include "backends/reference/reference_backend.h"
#include "backends/reference/silu.h"

namespace inkstone::reference {

using host::load_row;
using host::rounded;
using host::scalar;
using host::store_row;
namespace {

// All rows of x as floats.
std::vector<float> widen(const TensorView& x) {
  const auto columns = static_cast<std::size_t>(x.shape[1]);
  std::vector<float> rows(static_cast<std::size_t>(x.rows()) * columns);
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    load_row(x, t, std::span(rows).subspan(static_cast<std::size_t>(t) * columns, columns));
  }
  return rows;
}

void store(const TensorView& out, std::int64_t row, std::int64_t column, float value) {
  store_row(out.columns_at(column, 1), row, {&value, 1});
}

}  // namespace

void ReferenceBackend::linear(const ops::LinearArgs& args, ops::Stream&) {
  check(args);
  std::vector<float> x = widen(args.x);
  if (!args.x_rest.empty()) {
    const std::vector<float> rest = widen(args.x_rest);
    std::transform(x.begin(), x.end(), rest.begin(), x.begin(), std::plus());
  }
  const auto columns = static_cast<std::size_t>(args.x.shape[1]);
  std::int64_t first = 0;
  for (const MatrixBank& weight : args.weights) {
    pool_.parallel_for(weight.rows, 16, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch;
      for (std::int64_t n = begin; n < end; ++n) {
        for (std::int64_t t = 0; t < args.x.rows(); ++t) {
          const std::span row = std::span(x).subspan(static_cast<std::size_t>(t) * columns, columns);
          float value = weight_dot(weight, 0, n, row, scratch) * args.alpha;
          if (!args.out_scale.empty()) value = rounded(value, args.out.type) * scalar(args.out_scale);
          store(args.out, t, first + n, value);
        }
      }
    });
    first += weight.rows;
  }
}

void ReferenceBackend::gated_linear(const ops::GatedLinearArgs& args, ops::Stream&) {
  check(args);
  const std::vector<float> x = widen(args.x);
  const auto columns = static_cast<std::size_t>(args.x.shape[1]);
  const ScalarType type = args.x.type;
  pool_.parallel_for(args.weight.gate.rows, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch;
    for (std::int64_t n = begin; n < end; ++n) {
      for (std::int64_t t = 0; t < args.x.rows(); ++t) {
        const std::span row = std::span(x).subspan(static_cast<std::size_t>(t) * columns, columns);
        const float gate = rounded(weight_dot(args.weight.gate, 0, n, row, scratch), type);
        const float up = rounded(weight_dot(args.weight.up, 0, n, row, scratch), type);
        store(args.out, t, n, silu(gate) * up);
      }
    }
  });
}

}  // namespace inkstone::reference
