// SPDX-License-Identifier: Apache-2.0
#include "chat/reply.h"

#include <random>
#include <string_view>

namespace inkstone::chat {

const char* spell(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kToolCalls:
      return "tool_calls";
    case FinishReason::kAborted:
      return "abort";
    case FinishReason::kStop:
      break;
  }
  return "stop";
}

ReplyOptions reply_options(const ChatRequest& request) {
  ReplyOptions options;
  options.tools_offered = !request.tools.empty();
  options.drop_calls = request.tool_choice.kind == ToolChoice::Kind::kNone;
  if (!request.parallel_tool_calls) options.max_calls = 1;
  options.reasoning = request.reasoning;
  return options;
}

std::string random_call_id() {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  // Ids tell calls apart; they are no secrets. The system's source of randomness would take 10 us a letter.
  static thread_local std::mt19937_64 source = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  std::uniform_int_distribution<std::size_t> pick(0, kAlphabet.size() - 1);
  std::string id = "call_";
  for (int idx = 0; idx < 24; ++idx) id.push_back(kAlphabet[pick(source)]);
  return id;
}

}  // namespace inkstone::chat
