// SPDX-License-Identifier: Apache-2.0
// tests/support/real_tokenizer.h - the real vocabulary for tests: the shipped ranks plus the released special
// tokens.
#pragma once

#include <string>

#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace inkstone::test_support {

// Loaded once per process; a failure to load ends the test program with a message.
const text::Tokenizer& real_tokenizer();
const text::SpecialTokens& real_special_tokens();

// models/inkling-mini: another vocabulary with other special ids.
const text::Tokenizer& mini_tokenizer();
const text::SpecialTokens& mini_special_tokens();

std::string read_source_file(const std::string& path_in_repository);

// The special tokens whose ids are known; the other released ids get a made-up spelling.
std::vector<text::TokenEntry> released_specials();

}  // namespace inkstone::test_support
