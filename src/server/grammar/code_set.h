// SPDX-License-Identifier: Apache-2.0
// server/grammar/code_set.h - sets of characters, for patterns.
#pragma once

#include <cstdint>
#include <vector>

namespace inkstone::server {

// Code points that UTF-8 can hold: no halves of surrogate pairs.
class CodeSet {
 public:
  struct Range {
    std::uint32_t low = 0;
    std::uint32_t high = 0;  // inclusive
  };

  CodeSet() = default;
  CodeSet(std::initializer_list<Range> ranges);
  static CodeSet all();

  void add(std::uint32_t low, std::uint32_t high);
  void add(const CodeSet& other);
  [[nodiscard]] CodeSet complement() const;
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  // Ascending, apart from each other.
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }

 private:
  void add_valid(std::uint32_t low, std::uint32_t high);
  std::vector<Range> ranges_;
};

}  // namespace inkstone::server
