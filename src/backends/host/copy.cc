// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backends/host/host_backend.h"
#include "backends/host/rows.h"

namespace inkstone::host {
namespace {

void copy_row(const TensorView& from, std::int64_t from_row, const TensorView& to, std::int64_t to_row) {
  INK_CHECK(from_row < from.rows() && to_row < to.rows(), "row index within the tensor");
  const std::int64_t elements = from.row_elements();
  if (from.type == to.type) {
    const std::int64_t size = size_bytes(from.type);
    std::memcpy(to.data + to_row * to.row_stride * size, from.data + from_row * from.row_stride * size,
                static_cast<std::size_t>(elements * size));
    return;
  }
  std::vector<float> row(static_cast<std::size_t>(elements));
  load_row(from, from_row, row);
  store_row(to, to_row, row);
}

}  // namespace

void HostBackend::gather_rows(const ops::GatherRowsArgs& args, ops::Stream&) {
  check(args);
  for (std::int64_t i = 0; i < args.index.rows(); ++i) {
    const std::int32_t from = args.index.as<std::int32_t>()[i];
    if (from >= 0) copy_row(args.x, from, args.out, i);
  }
}

void HostBackend::scatter_rows(const ops::ScatterRowsArgs& args, ops::Stream&) {
  check(args);
  for (std::int64_t i = 0; i < args.index.rows(); ++i) {
    const std::int32_t to = args.index.as<std::int32_t>()[i];
    if (to >= 0) copy_row(args.x, i, args.out, to);
  }
}

}  // namespace inkstone::host
