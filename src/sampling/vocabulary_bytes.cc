// SPDX-License-Identifier: Apache-2.0
#include "sampling/vocabulary_bytes.h"

#include <algorithm>
#include <string_view>

namespace inkstone::sampling {
namespace {

// In bytes, not in chars, whose sign depends on the machine.
bool less(std::string_view a, std::string_view b) {
  return std::ranges::lexicographical_compare(
      a, b, [](char x, char y) { return static_cast<unsigned char>(x) < static_cast<unsigned char>(y); });
}

std::size_t shared_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

VocabularyBytes::VocabularyBytes(const text::Tokenizer& tokenizer) : num_ids(tokenizer.vocabulary_size()) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < num_ids; ++id)
    if (!tokenizer.is_special(id)) ids.push_back(id);
  std::ranges::sort(ids, [&](std::int32_t a, std::int32_t b) {
    return less(tokenizer.token_bytes(a), tokenizer.token_bytes(b));
  });
  std::string_view before;
  for (const std::int32_t id : ids) {
    const std::string_view text = tokenizer.token_bytes(id);
    longest = std::max(longest, text.size());
    entries.push_back({id, static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint16_t>(text.size()),
                       static_cast<std::uint16_t>(shared_prefix(before, text)), 0});
    bytes += text;
    before = text;
  }
  // From behind: an entry's descendants are those that share all of its bytes.
  for (std::size_t idx = entries.size(); idx-- > 0;) {
    std::size_t next = idx + 1;
    while (next < entries.size() && entries[next].shared >= entries[idx].length) next = entries[next].skip;
    entries[idx].skip = static_cast<std::uint32_t>(next);
  }
}

}  // namespace inkstone::sampling
