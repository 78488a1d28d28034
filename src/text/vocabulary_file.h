// SPDX-License-Identifier: Apache-2.0
// text/vocabulary_file.h - reads the files that carry a vocabulary: `tokenizer.json` and tiktoken rank files.
// Every error is kCorrupt and names the token or line at fault.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/rank_table.h"

namespace inkstone::text {

// Checked: ids in [0, kMaxTokenId] and distinct, spellings not empty and distinct, all 256 single bytes among
// `ordinary`.
struct Vocabulary {
  std::vector<TokenEntry> ordinary;  // id = merge rank
  std::vector<TokenEntry> special;   // control tokens; never met in ordinary text
};

inline constexpr std::int32_t kMaxTokenId = (1 << 22) - 1;
// The released rank file lists the special tokens after the ordinary ones, from this id on.
inline constexpr std::int32_t kFirstReleasedSpecial = 199998;

// Hugging Face form: `model.vocab` (merges are ignored, they stand in id order), `added_tokens` are the
// special ones.
Result<Vocabulary> parse_tokenizer_json(std::string_view json);

// tiktoken form: base64 of the bytes, a space, the rank. Lines from `first_special` on and `extra_special`
// are special.
Result<Vocabulary> parse_tiktoken(std::string_view text, std::int32_t first_special = kFirstReleasedSpecial,
                                  std::vector<TokenEntry> extra_special = {});

// `added_tokens_decoder` of `tokenizer_config.json`; empty when the file has none.
Result<std::vector<TokenEntry>> parse_added_tokens(std::string_view tokenizer_config_json);

}  // namespace inkstone::text
