// SPDX-License-Identifier: Apache-2.0
// tests/support/reply_invariants.h - what must hold of the reply decoder for any ids: for random streams and
// for fuzzing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chat/reply_decoder.h"

namespace inkstone::test_support {

struct ReplyCase {
  chat::ReplyOptions options;  // `streaming` is set both ways
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> ids;
};

struct ReplyFinding {
  std::string fault;           // empty: everything holds
  bool strictly_equal = true;  // false: the stream reported a call that was cut or bad, so that it may differ
  std::size_t num_calls = 0;   // complete ones
};

// Runs the ids whole and streamed. Checked: both give the same message (but for calls that the stream could
// not take back), deltas join to the message, every text is UTF-8, arguments of complete calls are JSON
// objects, a stop string never shows, and, when no ordinary token of `ids` holds '|', no marker shows.
ReplyFinding examine_reply(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens,
                           const ReplyCase& reply);

}  // namespace inkstone::test_support
