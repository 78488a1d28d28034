// SPDX-License-Identifier: Apache-2.0
// sampling/vocabulary_bytes.h - the ordinary tokens in the order of their bytes, so that a walk over all of
// them does the work of a common beginning once. Immutable; built once per tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace inkstone::sampling {

struct VocabularyBytes {
  explicit VocabularyBytes(const text::Tokenizer& tokenizer);

  struct Entry {
    std::int32_t id = 0;
    std::uint32_t begin = 0;   // of its bytes in `bytes`
    std::uint16_t length = 0;  // of its bytes
    std::uint16_t shared = 0;  // leading bytes that it has in common with the entry before
    std::uint32_t skip = 0;    // index of the next entry that does not begin with this one's bytes
  };
  std::vector<Entry> entries;  // ascending by bytes
  std::string bytes;
  std::int64_t num_ids = 0;  // the unpadded vocabulary
  std::size_t longest = 0;   // bytes
};

}  // namespace inkstone::sampling
