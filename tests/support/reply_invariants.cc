// SPDX-License-Identifier: Apache-2.0
#include "tests/support/reply_invariants.h"

#include <fmt/format.h>

#include <algorithm>

#include "chat/json_value.h"
#include "text/utf8.h"

namespace inkstone::test_support {
namespace {

using chat::ReplyCall;
using chat::ReplyDelta;
using chat::ReplyMessage;

struct Run {
  ReplyMessage message;
  ReplyMessage joined;  // what a client makes of the deltas
};

void join(const ReplyDelta& delta, ReplyMessage& message) {
  if (delta.kind == ReplyDelta::Kind::kReasoning) message.reasoning += delta.text;
  if (delta.kind == ReplyDelta::Kind::kContent) message.content += delta.text;
  if (delta.kind == ReplyDelta::Kind::kCallStart)
    message.tool_calls.push_back({delta.call_id, delta.name, "", true});
  if (delta.kind == ReplyDelta::Kind::kCallArguments)
    message.tool_calls.at(delta.call_idx).arguments += delta.text;
}

Run run(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens, const ReplyCase& reply,
        bool streaming) {
  chat::ReplyOptions options = reply.options;
  options.streaming = streaming;
  options.make_call_id = [] { return std::string("id"); };
  chat::ReplyDecoder decoder(tokenizer, tokens, options, reply.prompt);
  Run result;
  std::vector<ReplyDelta> all;
  for (const std::int32_t id : reply.ids) {
    std::vector<ReplyDelta> deltas;
    decoder.push(id, deltas);
    all.insert(all.end(), deltas.begin(), deltas.end());
  }
  decoder.finish(chat::TurnEnd::kLength, all);
  for (const ReplyDelta& delta : all) join(delta, result.joined);
  result.message = decoder.message();
  return result;
}

std::string calls_of(const ReplyMessage& message, bool complete_only) {
  std::string text;
  for (const ReplyCall& call : message.tool_calls) {
    if (call.complete || !complete_only) text += fmt::format("{} {}\n", call.name, call.arguments);
  }
  return text;
}

bool any_incomplete(const ReplyMessage& message) {
  return std::any_of(message.tool_calls.begin(), message.tool_calls.end(),
                     [](const auto& call) { return !call.complete; });
}

std::string text_fault(const ReplyCase& reply, const ReplyMessage& message) {
  const std::string all = message.reasoning + "\n" + message.content + "\n" + calls_of(message, false);
  if (!text::is_valid_utf8(all)) return "a text is not UTF-8";
  if (all.find('|') != std::string::npos) return "a marker shows: " + all;
  for (const std::string& stop : reply.options.stop) {
    const bool matched = message.matched_stop == stop && reply.options.keep_stop;
    if (matched && !message.content.ends_with(stop)) return "the kept stop string is missing";
  }
  for (const ReplyCall& call : message.tool_calls) {
    const auto value = chat::parse_json(call.arguments, "arguments");
    if (call.complete && value && value->kind != chat::JsonValue::Kind::kObject)
      return "arguments are no object";
    if (call.complete && call.name.empty()) return "a call without a name";
  }
  return "";
}

std::string join_fault(const Run& run) {
  const bool same = run.message.reasoning == run.joined.reasoning &&
                    run.message.content == run.joined.content &&
                    calls_of(run.message, false) == calls_of(run.joined, false);
  return same ? "" : "the deltas do not join to the message";
}

std::string difference(const ReplyMessage& whole, const ReplyMessage& streamed) {
  if (whole.reasoning != streamed.reasoning) return "reasoning differs";
  if (calls_of(whole, false) != calls_of(streamed, true)) return "complete calls differ";
  if (whole.finish_reason != streamed.finish_reason) return "finish_reason differs";
  if (whole.num_ids != streamed.num_ids || whole.num_reasoning_ids != streamed.num_reasoning_ids)
    return "counts differ";
  if (any_incomplete(streamed))
    return streamed.content.size() > whole.content.size() ? "the stream shows more" : "";
  return whole.content == streamed.content ? "" : "content differs";
}

}  // namespace

ReplyFinding examine_reply(const text::Tokenizer& tokenizer, const text::SpecialTokens& tokens,
                           const ReplyCase& reply) {
  const Run whole = run(tokenizer, tokens, reply, false);
  const Run streamed = run(tokenizer, tokens, reply, true);
  ReplyFinding finding;
  finding.strictly_equal = !any_incomplete(streamed.message);
  finding.num_calls = whole.message.tool_calls.size();
  for (const std::string& fault :
       {text_fault(reply, whole.message), text_fault(reply, streamed.message), join_fault(whole),
        join_fault(streamed), difference(whole.message, streamed.message)}) {
    if (finding.fault.empty()) finding.fault = fault;
  }
  if (any_incomplete(whole.message)) finding.fault = "an incomplete call is reported";
  return finding;
}

}  // namespace inkstone::test_support
