// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/sequences.h"

#include <algorithm>
#include <numeric>

namespace inkstone::conformance {
namespace {

Shape with_rows(std::int64_t rows, const std::vector<std::int64_t>& row) {
  std::vector<std::int64_t> sizes = {rows};
  sizes.insert(sizes.end(), row.begin(), row.end());
  return Shape(sizes);
}

}  // namespace

HostRows::HostRows(const std::vector<Span>& spans, std::int64_t padding) {
  const auto sequences = static_cast<std::int64_t>(spans.size());
  std::int64_t total = padding;
  for (const Span& span : spans) total += span.rows;
  row_sequence = HostTensor(ScalarType::kI32, {total});
  row_position = HostTensor(ScalarType::kI32, {total});
  row_begin = HostTensor(ScalarType::kI32, {sequences + 1});
  first_position = HostTensor(ScalarType::kI32, {sequences});
  std::int64_t row = 0;
  for (std::int64_t s = 0; s < sequences; ++s) {
    const Span& span = spans[static_cast<std::size_t>(s)];
    row_begin.set(s, static_cast<float>(row));
    first_position.set(s, static_cast<float>(span.first));
    max_sequence_rows = std::max(max_sequence_rows, span.rows);
    for (std::int64_t i = 0; i < span.rows; ++i, ++row) {
      row_sequence.set(row, static_cast<float>(s));
      row_position.set(row, static_cast<float>(span.first + i));
    }
  }
  row_begin.set(sequences, static_cast<float>(row));
  for (; row < total; ++row) row_position.set(row, 0);
}

ops::PackedRows HostRows::put(Side& side) {
  return {side.put(row_sequence), side.put(row_position), side.put(row_begin), side.put(first_position),
          max_sequence_rows};
}

HostState::HostState(Random& random, ScalarType type, std::int64_t sequences, std::int64_t max_position,
                     std::int64_t ring, const std::vector<std::int64_t>& row)
    : ring_rows(ring) {
  const std::int64_t per_sequence = ring > 0 ? 1 : (max_position + ops::kPageTokens - 1) / ops::kPageTokens;
  const std::int64_t units = sequences * per_sequence + 2;  // two that nobody owns
  std::vector<std::int64_t> order(static_cast<std::size_t>(units));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i) + 1))]);
  }
  storage = HostTensor(type, with_rows(units * (ring > 0 ? ring : ops::kPageTokens), row));
  table = ring > 0 ? HostTensor(ScalarType::kI32, {sequences})
                   : HostTensor(ScalarType::kI32, {sequences, per_sequence});
  for (std::int64_t i = 0; i < table.size(); ++i)
    table.set(i, static_cast<float>(order[static_cast<std::size_t>(i)]));
}

void HostState::fill(Random& random, std::int64_t sequence, std::int64_t begin, std::int64_t end,
                     float deviation) {
  const ops::StateRows rows{storage.view(), table.view(), ring_rows};
  const std::int64_t width = storage.view().row_elements();
  for (std::int64_t position = std::max<std::int64_t>(0, begin); position < end; ++position) {
    const std::int64_t row = ops::row_index(rows, sequence, position);
    for (std::int64_t i = 0; i < width; ++i) storage.set(row * width + i, random.normal(deviation));
  }
}

ops::StateRows HostState::put(Side& side) { return {side.put(storage), side.put(table), ring_rows}; }

}  // namespace inkstone::conformance
