// SPDX-License-Identifier: Apache-2.0
// checkpoint/files/problems.h - many faults of one checkpoint as one message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace inkstone::checkpoint {

class Problems {
 public:
  static constexpr std::size_t kNamed = 6;

  void add(std::string problem);
  [[nodiscard]] bool empty() const { return count_ == 0; }
  // "<subject>: a; b; c; and 12 more problems". An error of kind kCorrupt, or success when nothing was added.
  [[nodiscard]] Status finish(std::string_view subject) const;

 private:
  std::vector<std::string> named_;
  std::size_t count_ = 0;
};

// "a, b, c and 12 more"
std::string first_few(const std::vector<std::string>& names);

}  // namespace inkstone::checkpoint
