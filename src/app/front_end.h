// SPDX-License-Identifier: Apache-2.0
// app/front_end.h - what turns text into ids and back for one checkpoint, and what its special ids mean to
// sampling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "sampling/token_mask.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace inkstone::app {

struct FrontEnd {
  text::Tokenizer tokenizer;
  text::SpecialTokens tokens;
};

// Refuses a folder without a tokenizer, and a tokenizer that lacks special tokens.
Result<FrontEnd> load_front_end(const std::string& folder);

// The ids that config.json names must be those of the tokenizer's spellings, and every token must have a row
// in the embedding: kCorrupt, one message that names all that differ.
Status check_agreement(const checkpoint::ModelConfig& config, const FrontEnd& front);

// What ends an answer (chat.md 3.6), and what nobody may ever draw (chat.md 1.1).
std::vector<std::int32_t> end_ids(const FrontEnd& front);
sampling::TokenMask forbidden_ids(const checkpoint::ModelConfig& config, const FrontEnd& front);

}  // namespace inkstone::app
