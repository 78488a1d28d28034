// SPDX-License-Identifier: Apache-2.0
// sampling/token_mask.h - the ids that no path may ever draw or list: media slots and markers. Ids beyond the
// valid vocabulary need no bit; operations never look at them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace inkstone::sampling {

class TokenMask {
 public:
  explicit TokenMask(std::int64_t num_valid);

  void forbid(std::int32_t id);  // ids out of [0, num_valid) are forbidden anyway
  [[nodiscard]] bool forbids(std::int32_t id) const;
  [[nodiscard]] std::int64_t num_valid() const { return num_valid_; }
  // One bit per valid id, as ops::SampleArgs::masks wants a row of them.
  [[nodiscard]] std::span<const std::uint32_t> words() const { return words_; }

 private:
  std::int64_t num_valid_;
  std::vector<std::uint32_t> words_;
};

}  // namespace inkstone::sampling
