// SPDX-License-Identifier: Apache-2.0
#include "sampling/token_mask.h"

namespace inkstone::sampling {

TokenMask::TokenMask(std::int64_t num_valid)
    : num_valid_(num_valid), words_(static_cast<std::size_t>((num_valid + 31) / 32), 0) {}

void TokenMask::forbid(std::int32_t id) {
  if (forbids(id)) return;
  words_[static_cast<std::size_t>(id / 32)] |= 1U << (id % 32);
}

bool TokenMask::forbids(std::int32_t id) const {
  if (id < 0 || id >= num_valid_) return true;
  return (words_[static_cast<std::size_t>(id / 32)] >> (id % 32) & 1U) != 0;
}

}  // namespace inkstone::sampling
