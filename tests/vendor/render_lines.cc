// SPDX-License-Identifier: Apache-2.0
// Encodes chat requests with the released vocabulary: one JSON request a line in, one JSON array of ids a
// line out. The tool list stands after the leading system messages, as in the vendor's renderer. Used by
// compare_tml_renderers.py.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "chat/prompt_encoder.h"
#include "chat/request_parser.h"
#include "tests/support/real_tokenizer.h"

namespace {

namespace chat = inkstone::chat;
namespace test_support = inkstone::test_support;
using inkstone::Result;

Result<std::string> encode(const std::string& line) {
  const chat::PromptEncoder encoder(test_support::real_tokenizer(), test_support::real_special_tokens(),
                                    chat::ToolListOrder::kAfterSystem);
  const chat::ChatRequest request = INK_TRY(chat::parse_chat_request(line));
  const chat::EncodedPrompt prompt = INK_TRY(encoder.encode(request));
  std::string ids;
  for (const std::int32_t id : prompt.ids) ids += fmt::format("{}{}", ids.empty() ? "[" : ",", id);
  return ids + "]";
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    const Result<std::string> ids = encode(line);
    std::cout << (ids ? *ids : fmt::format("\"{}\"", ids.error().message)) << '\n';
  }
  return 0;
}
