// SPDX-License-Identifier: Apache-2.0
// tests/speculation/row_oracle.h - every state row of a text, from a fresh run over it: the trunk first, then
// one head after the other, each over rows whose tokens are all known.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/mini_model.h"

namespace inkstone::testing {

class RowOracle {
 public:
  RowOracle(const MiniModel& mini, std::vector<std::int32_t> tokens, std::int64_t depths);

  [[nodiscard]] const std::vector<std::int32_t>& tokens() const { return tokens_; }
  // The row of a position; empty where the text does not decide it.
  [[nodiscard]] std::span<const std::byte> row(std::size_t group, std::int64_t position) const;

 private:
  class Run;

  std::vector<std::int32_t> tokens_;
  std::vector<std::vector<std::vector<std::byte>>> rows_;  // by group, by position
};

}  // namespace inkstone::testing
