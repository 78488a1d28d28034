// SPDX-License-Identifier: Apache-2.0
#include "server/grammar/code_set.h"

#include <algorithm>

namespace inkstone::server {
namespace {

constexpr std::uint32_t kFirstSurrogate = 0xD800;
constexpr std::uint32_t kLastSurrogate = 0xDFFF;
constexpr std::uint32_t kLast = 0x10FFFF;

}  // namespace

CodeSet::CodeSet(std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) add(range.low, range.high);
}

CodeSet CodeSet::all() { return {{0, kLast}}; }

void CodeSet::add(std::uint32_t low, std::uint32_t high) {
  add_valid(low, std::min(high, kFirstSurrogate - 1));
  add_valid(std::max(low, kLastSurrogate + 1), std::min(high, kLast));
}

void CodeSet::add_valid(std::uint32_t low, std::uint32_t high) {
  if (low > high) return;
  std::vector<Range> joined;
  for (const Range& range : ranges_) {
    if (range.high + 1 < low || high + 1 < range.low) {
      joined.push_back(range);
    } else {
      low = std::min(low, range.low);
      high = std::max(high, range.high);
    }
  }
  const auto at = std::ranges::lower_bound(joined, low, {}, &Range::low);
  joined.insert(at, {low, high});
  ranges_ = std::move(joined);
}

void CodeSet::add(const CodeSet& other) {
  for (const Range& range : other.ranges_) add_valid(range.low, range.high);
}

CodeSet CodeSet::complement() const {
  CodeSet others;
  std::uint32_t begin = 0;
  for (const Range& range : ranges_) {
    if (range.low > begin) others.add(begin, range.low - 1);
    begin = range.high + 1;
  }
  if (begin <= kLast) others.add(begin, kLast);
  return others;
}

}  // namespace inkstone::server
