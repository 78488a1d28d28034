// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backends/host/host_backend.h"
#include "backends/host/rows.h"

namespace inkstone::host {
namespace {

// Applies `change` to every row of `in`, as floats, into `out`.
template <class Change>
void map_rows(const TensorView& in, const TensorView& out, const Change& change) {
  std::vector<float> row(static_cast<std::size_t>(in.row_elements()));
  for (std::int64_t t = 0; t < in.rows(); ++t) {
    load_row(in, t, row);
    change(t, std::span<float>(row));
    store_row(out, t, row);
  }
}

}  // namespace

void HostBackend::add(const ops::AddArgs& args, ops::Stream&) {
  check(args);
  std::vector<float> other(static_cast<std::size_t>(args.y.row_elements()));
  map_rows(args.x, args.out, [&](std::int64_t t, std::span<float> row) {
    load_row(args.y, t, other);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] += other[i];
  });
}

void HostBackend::log_scale(const ops::LogScaleArgs& args, ops::Stream&) {
  check(args);
  map_rows(args.x, args.x, [&](std::int64_t t, std::span<float> row) {
    const auto length = static_cast<float>(args.row_position.as<std::int32_t>()[t] + 1);
    const float tau = 1.0F + args.alpha * std::log(std::max(length / args.floor, 1.0F));
    for (float& value : row) value *= tau;
  });
}

void HostBackend::gelu(const ops::GeluArgs& args, ops::Stream&) {
  check(args);
  map_rows(args.x, args.x, [](std::int64_t, std::span<float> row) {
    for (float& value : row) value = value * (1.0F + std::erf(value * 0.70710678118654752F)) / 2.0F;
  });
}

}  // namespace inkstone::host
