// SPDX-License-Identifier: Apache-2.0
#include "chat/reply_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <thread>

#include "tests/support/real_tokenizer.h"

namespace inkstone::chat {
namespace {

using test_support::real_special_tokens;
using test_support::real_tokenizer;
using testing::ElementsAre;
using testing::IsEmpty;
using Ids = std::vector<std::int32_t>;

const std::string kEnd = "<|content_model_end_sampling|>";
const std::string kClosed = "<|end_message|>" + kEnd;

// Special spellings become special ids.
Ids ids_of(const std::string& text) { return real_tokenizer().encode_with_specials(text); }

Ids operator+(Ids left, const Ids& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

ReplyOptions with_tools() {
  ReplyOptions options;
  options.tools_offered = true;
  return options;
}

struct Turn {
  ReplyMessage message;
  std::vector<ReplyDelta> deltas;
  TurnEnd end = TurnEnd::kNone;
};

Turn decode(const Ids& ids, ReplyOptions options = with_tools(), TurnEnd cause = TurnEnd::kLength,
            const Ids& prompt = {200001}) {
  int num_calls = 0;
  options.make_call_id = [&num_calls] { return fmt::format("call_{}", num_calls++); };
  ReplyDecoder decoder(real_tokenizer(), real_special_tokens(), options, prompt);
  Turn turn;
  for (const std::int32_t id : ids) decoder.push(id, turn.deltas);
  decoder.finish(cause, turn.deltas);
  turn.message = decoder.message();
  turn.end = decoder.ended();
  return turn;
}

Turn stream(const Ids& ids, ReplyOptions options = with_tools(), TurnEnd cause = TurnEnd::kLength,
            const Ids& prompt = {200001}) {
  options.streaming = true;
  return decode(ids, std::move(options), cause, prompt);
}

// What a client puts together from the deltas, as one line.
std::string joined(const std::vector<ReplyDelta>& deltas) {
  std::string reasoning;
  std::string content;
  std::vector<std::string> calls;
  for (const ReplyDelta& delta : deltas) {
    if (delta.kind == ReplyDelta::Kind::kReasoning) reasoning += delta.text;
    if (delta.kind == ReplyDelta::Kind::kContent) content += delta.text;
    if (delta.kind == ReplyDelta::Kind::kCallStart) calls.push_back(delta.call_id + " " + delta.name + " ");
    if (delta.kind == ReplyDelta::Kind::kCallArguments) calls.at(delta.call_idx) += delta.text;
  }
  std::string line = fmt::format("[{}] [{}]", reasoning, content);
  for (const std::string& call : calls) line += " " + call;
  return line;
}

std::string summary(const ReplyMessage& message) {
  std::string line = fmt::format("[{}] [{}]", message.reasoning, message.content);
  for (const ReplyCall& call : message.tool_calls)
    line += fmt::format(" {} {} {}", call.id, call.name, call.arguments);
  return line;
}

// The message as "[reasoning] [content] calls finish", the same whether streamed or not.
std::string both(const Ids& ids, const ReplyOptions& options = with_tools(), TurnEnd cause = TurnEnd::kLength,
                 const Ids& prompt = {200001}) {
  const Turn whole = decode(ids, options, cause, prompt);
  const Turn streamed = stream(ids, options, cause, prompt);
  EXPECT_EQ(summary(whole.message), summary(streamed.message));
  EXPECT_EQ(summary(whole.message), joined(whole.deltas));
  EXPECT_EQ(summary(whole.message), joined(streamed.deltas));
  EXPECT_STREQ(spell(whole.message.finish_reason), spell(streamed.message.finish_reason));
  return summary(whole.message) + " " + spell(whole.message.finish_reason);
}

std::string call_block(const std::string& name, const std::string& payload) {
  return name + "<|content_invoke_tool_json|>" + payload;
}

const std::string kGood = R"({"name":"f","args":{}})";

TEST(ReplyDecoder, ParsesP1ReasoningAndText) {
  const Ids ids = {200008, 10838, 200010, 200001, 200004, 13225, 0, 200010, 200006};
  EXPECT_EQ(ids, ids_of("<|content_thinking|>plan<|end_message|><|message_model|><|content_text|>Hello!" +
                        kClosed));
  EXPECT_EQ(both(ids), "[plan] [Hello!] stop");
}

TEST(ReplyDecoder, ParsesP2TextAndCall) {
  const Ids ids = {200008, 10838,  200010, 200001, 200004, 70142, 13,     200010, 200001,
                   522,    170154, 200049, 10848,  897,    7534,  522,    170154, 4294,
                   4285,   70649,  17500,  7534,   46661,  57612, 200010, 200006};
  EXPECT_EQ(both(ids), R"([plan] [Checking.] call_0 get_weather {"city":"SF"} tool_calls)");
}

TEST(ReplyDecoder, ParsesP3BareAnswer) { EXPECT_EQ(both(ids_of("Hello!" + kClosed)), "[] [Hello!] stop"); }

TEST(ReplyDecoder, ParsesP4TurnThatOpensWithACall) {
  const Ids ids = ids_of(call_block("get_weather", R"({"name":"get_weather","args":{}})" + kClosed));
  EXPECT_EQ(both(ids), "[] [] call_0 get_weather {} tool_calls");
}

TEST(ReplyDecoder, ParsesP5PromptWithoutGenerationPrompt) {
  const Ids ids = ids_of("<|message_model|><|content_text|>Hi" + kClosed);
  EXPECT_EQ(both(ids, with_tools(), TurnEnd::kLength, {200004, 13225, 200010}), "[] [Hi] stop");
}

TEST(ReplyDecoder, ParsesP6HeaderLessTextAfterACall) {
  const Ids ids = ids_of(call_block("search", R"({"name":"search","args":{"q":"a"}})") +
                         "<|end_message|><|content_text|>done" + kClosed);
  EXPECT_EQ(both(ids), R"([] [done] call_0 search {"q":"a"} tool_calls)");
}

TEST(ReplyDecoder, ParsesP7MalformedPayloadAsContent) {
  const Ids ids = ids_of(call_block("f", R"({"name":"f"})") +
                         "<|end_message|><|message_model|><|content_text|>after" + kClosed);
  EXPECT_EQ(both(ids), R"([] [{"name":"f"}after] stop)");
}

TEST(ReplyDecoder, ParsesP8SpelledMarkersAsText) {
  const Ids ids =
      Ids{200004} + real_tokenizer().encode_ordinary("see <|content_text|> token") + ids_of(kClosed);
  EXPECT_EQ(both(ids), "[] [see <|content_text|> token] stop");
}

TEST(ReplyDecoder, ParsesP9LimitInsideThinking) {
  EXPECT_EQ(both(ids_of("<|content_thinking|>long plan")), "[long plan] [] length");
}

TEST(ReplyDecoder, ParsesP10CallsBackToBack) {
  const Ids ids = ids_of(call_block("f", kGood) + "<|end_message|><|message_model|>" +
                         call_block("g", R"({"name":"g","args":{"a":1}})") + kClosed);
  EXPECT_EQ(both(ids), R"([] [] call_0 f {} call_1 g {"a":1} tool_calls)");
  const Turn turn = stream(ids);
  EXPECT_EQ(turn.deltas.front().call_idx, 0U);
  EXPECT_EQ(turn.deltas.back().call_idx, 1U);
}

TEST(ReplyDecoder, ParsesP11ArgsBeforeNameVerbatim) {
  const Ids ids =
      ids_of(call_block("search", R"({ "args": {"q": "x", "n": 2.50}, "name": "search" })" + kClosed));
  EXPECT_EQ(both(ids), R"([] [] call_0 search {"q": "x", "n": 2.50} tool_calls)");
}

TEST(ReplyDecoder, ParsesP12CallWithoutTools) {
  const Ids ids = ids_of(call_block("get_weather", R"({"name":"get_weather","args":{}})" + kClosed));
  EXPECT_EQ(both(ids, {}), "[] [get_weather] call_0 get_weather {} tool_calls");
}

TEST(ReplyDecoder, ParsesP13ForeignBlock) {
  const Ids ids = ids_of(
      "<|content_text|>Hi<|end_message|><|message_user|><|content_text|>more?<|end_message|><|message_model|>"
      "<|content_text|>Yes" +
      kClosed);
  EXPECT_EQ(both(ids), "[] [HiYes] stop");
}

TEST(ReplyDecoder, ParsesP14UnclosedCall) {
  const Ids ids = ids_of(call_block("f", kGood) + "<|message_model|><|content_text|>ok" + kClosed);
  EXPECT_EQ(both(ids), "[] [ok] call_0 f {} tool_calls");
}

// One of the two differences: the stream has sent what the limit then cut.
TEST(ReplyDecoder, ParsesP15LimitAfterAnUnclosedCall) {
  const Ids ids = ids_of(call_block("f", kGood));
  EXPECT_EQ(summary(decode(ids).message), "[] []");
  EXPECT_EQ(decode(ids).message.finish_reason, FinishReason::kLength);
  const Turn streamed = stream(ids);
  EXPECT_EQ(joined(streamed.deltas), "[] [] call_0 f {}");
  EXPECT_FALSE(streamed.message.tool_calls[0].complete);
  EXPECT_EQ(streamed.message.finish_reason, FinishReason::kLength);
}

TEST(ReplyDecoder, ParsesP16NothingClosed) {
  EXPECT_EQ(both(ids_of("<|content_thinking|>a<|content_text|>b" + kEnd)), "[a] [b] stop");
}

TEST(ReplyDecoder, ParsesP17PayloadWithoutName) {
  EXPECT_EQ(both(ids_of(call_block("f", R"({"args":{}})" + kClosed))), R"([] [{"args":{}}] stop)");
}

TEST(ReplyDecoder, ParsesP18LimitInsideAHeader) { EXPECT_EQ(both(ids_of("get_weather")), "[] [] length"); }

// B02, B03, B05: any kind of block may come first and follow any other.
TEST(ReplyDecoder, TakesBlocksInAnyOrder) {
  const std::string think = "<|content_thinking|>t<|end_message|>";
  const std::string text = "<|content_text|>x<|end_message|>";
  const std::string call = call_block("f", kGood) + "<|end_message|>";
  const std::string next = "<|message_model|>";
  const std::vector<std::string> orders = {
      think + next + text + next + call, think + next + call + next + text,
      text + next + think + next + call, text + next + call + next + think,
      call + next + think + next + text, call + next + text + next + think};
  for (const std::string& order : orders)
    EXPECT_EQ(both(ids_of(order + kEnd)), "[t] [x] call_0 f {} tool_calls");
  EXPECT_EQ(both(ids_of("<|content_thinking|><|end_message|>" + next + text + kEnd)), "[] [x] stop");
  EXPECT_EQ(
      both(ids_of("<|content_thinking|>one<|end_message|><|message_model|><|content_text|>mid<|end_message|>"
                  "<|message_model|><|content_thinking|>two" +
                  kClosed)),
      "[onetwo] [mid] stop");
}

// B06: the turn of a long conversation is read like the first one.
TEST(ReplyDecoder, ReadsTheFifthTurnLikeTheFirst) {
  const std::string turn =
      "<|message_model|>" + call_block("f", kGood) + kClosed +
      "<|message_tool|>f<|content_text|>done<|end_message|><|message_user|><|content_text|>go<|end_message|>";
  const Ids reply = ids_of(call_block("f", kGood) + kClosed);
  std::string history;
  for (int idx = 0; idx < 5; ++idx, history += turn) {
    const Ids prompt = ids_of(history + "<|message_model|>");
    EXPECT_EQ(both(reply, with_tools(), TurnEnd::kLength, prompt), "[] [] call_0 f {} tool_calls");
  }
}

TEST(ReplyDecoder, TakesPayloadsOfAnyDepth) {
  const std::string deep = R"({"a":)" + std::string(10000, '[') + std::string(10000, ']') + "}";
  EXPECT_EQ(both(ids_of(call_block("f", R"({"name":"f","args":)" + deep + "}") + kClosed)),
            "[] [] call_0 f " + deep + " tool_calls");
}

// B07: a broken quote must not leak markers, and the rest of the turn goes on.
TEST(ReplyDecoder, TurnsABrokenPayloadIntoContent) {
  for (const std::string payload : {R"({"name":"f","args":{"a":"b&quot;}})",
                                    R"({"name":"f","args":{"a":"\"}})", R"({"name":"f&quot;,"args":{}})"}) {
    const Turn whole =
        decode(ids_of(call_block("f", payload) + "<|end_message|><|content_text|>x" + kClosed));
    EXPECT_EQ(summary(whole.message), "[] [" + payload + "x]");
    EXPECT_EQ(whole.message.finish_reason, FinishReason::kStop);
  }
}

TEST(ReplyDecoder, RefusesPayloadsThatAreNotStrict) {
  for (const std::string payload : {R"({"name":"","args":{}})",
                                    R"({"name":5,"args":{}})",
                                    R"({"name":"f","args":[]})",
                                    R"({"name":"f","args":"{}"})",
                                    R"({"name":"f","args":null})",
                                    R"({"name":"f","args":{"a":NaN}})",
                                    R"({"name":"f","args":{}} x)",
                                    R"({"name":"f","args":{}}{})",
                                    R"([{"name":"f","args":{}}])",
                                    R"({"name":"f","args":{},})",
                                    R"({"name":"f" "args":{}})",
                                    R"({"name":"f","args":{"a":1})",
                                    R"({})",
                                    R"("")",
                                    "",
                                    R"({'name':'f','args':{}})",
                                    R"({"args":[],"name":"f","args":{}})",
                                    R"({"name":1,"name":"f","args":{}})",
                                    "{\"name\":\"f\",\"args\":{\"a\":\"\n\"}}",
                                    R"({"name":"f","args":{"a":"\ud800"}})"}) {
    const Turn whole = decode(ids_of(call_block("f", payload) + kClosed));
    EXPECT_EQ(summary(whole.message), "[] [" + payload + "]");
    EXPECT_EQ(whole.message.finish_reason, FinishReason::kStop) << payload;
  }
}

TEST(ReplyDecoder, AcceptsEveryStrictPayload) {
  const std::vector<std::pair<std::string, std::string>> payloads = {
      {R"({"args":{"a":{"b":["}",{}]}},"name":"f"})", R"(f {"a":{"b":["}",{}]}})"},
      {" \n{ \"name\" : \"f\" , \"x\" : [1,{\"name\":\"g\"}] , \"args\" : { } }\t", "f { }"},
      {R"({"n\u0061me":"\u0066","args":{"\"":"\\"}})", R"(f {"\"":"\\"})"},
      {R"({"name":"f","args":{"a":1},"args":{"a":2},"name":"g"})", R"(f {"a":1})"},
      {R"({"x":null,"y":-1.5e3,"z":true,"name":"f","args":{}})", "f {}"}};
  for (const auto& [payload, call] : payloads) {
    EXPECT_EQ(both(ids_of(call_block("search", payload) + kClosed)), "[] [] call_0 " + call + " tool_calls");
  }
}

// The other difference: a name that was sent cannot be taken back, and the payload is not repeated as
// content.
TEST(ReplyDecoder, EndsAStreamedCallThatTurnsOutBad) {
  const Turn turn = stream(ids_of(call_block("f", R"({"name":"f","args":{"a":1} oops)") +
                                  "<|end_message|><|content_text|>x" + kClosed));
  EXPECT_EQ(joined(turn.deltas), R"([] [x] call_0 f {"a":1})");
  EXPECT_FALSE(turn.message.tool_calls[0].complete);
  EXPECT_EQ(turn.message.finish_reason, FinishReason::kStop);
}

TEST(ReplyDecoder, StreamsArgumentsAsTheyArrive) {
  ReplyOptions options = with_tools();
  options.streaming = true;
  ReplyDecoder decoder(real_tokenizer(), real_special_tokens(), options, Ids{200001});
  const std::string payload = R"({"name":"f","args":{"text":"one two three four five"}})";
  std::size_t num_pieces = 0;
  std::string arguments;
  for (const std::int32_t id : ids_of(call_block("f", payload))) {
    std::vector<ReplyDelta> deltas;
    decoder.push(id, deltas);
    for (const ReplyDelta& delta : deltas) {
      EXPECT_NE(delta.kind, ReplyDelta::Kind::kContent);
      arguments += delta.text;
      ++num_pieces;
    }
  }
  EXPECT_EQ(arguments, R"({"text":"one two three four five"})");
  EXPECT_GT(num_pieces, 6U);
}

TEST(ReplyDecoder, ReleasesABareAnswerEarly) {
  const auto first_text = [](const std::string& text, const ReplyOptions& options) {
    ReplyDecoder decoder(real_tokenizer(), real_special_tokens(), options, Ids{200001});
    std::vector<ReplyDelta> deltas;
    for (const std::int32_t id : ids_of(text)) decoder.push(id, deltas);
    return joined(deltas);
  };
  EXPECT_EQ(first_text("Hello", with_tools()), "[] []");
  EXPECT_EQ(first_text("Hello there", with_tools()), "[] [Hello there]");
  EXPECT_EQ(first_text("Hello", {}), "[] [Hello]");
  const std::string longest(64, 'a');
  EXPECT_EQ(first_text(longest, with_tools()), "[] []");
  EXPECT_EQ(first_text(longest + "b", with_tools()), "[] [" + longest + "b]");
  // A name that nothing follows was an answer.
  EXPECT_EQ(both(ids_of("Yes" + kClosed)), "[] [Yes] stop");
  EXPECT_EQ(both(ids_of("Yes" + kEnd)), "[] [Yes] stop");
  EXPECT_EQ(both(ids_of("a b<|content_invoke_tool_json|>" + kGood + kClosed)),
            "[] [a b] call_0 f {} tool_calls");
}

TEST(ReplyDecoder, FollowsEveryRowOfTheStateTable) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"name<|message_model|><|content_text|>x", "[] [x] length"},  // header cleared
      {"name<|content_text|>x", "[] [x] length"},                   // header dropped
      {"name<|content_tool_error|>x", "[] [x] length"},
      {"name<|content_invoke_tool_text|>x", "[] [x] length"},
      {"name<|content_thinking|>x", "[x] [] length"},
      {"name<|message_tool|>x<|end_message|>y", "[] [y] length"},  // foreign, then a bare block
      {"<|end_message|><|end_message|>x", "[] [x] length"},        // nothing to end
      {"<|content_text|>a<|content_thinking|>b<|content_text|>c", "[b] [ac] length"},
      {"<|content_thinking|>a<|content_thinking|>b", "[ab] [] length"},  // ignored
      {"<|content_thinking|>a<|message_model|>b c", "[a] [b c] length"},
      {"<|content_thinking|>a<|content_invoke_tool_json|>" + kGood + kEnd, "[a] [] call_0 f {} tool_calls"},
      {"<|content_thinking|>a<|message_system|>b<|end_message|><|content_text|>c", "[a] [c] length"},
      {"<|content_text|>a<|message_user|>b<|message_model|>c<|end_message|>d", "[] [ad] length"},
      {"<|content_text|>a<|unused_200030|><|audio_end|><|content_image|>b", "[] [ab] length"},  // dropped
      {"<|content_invoke_tool_json|>" + kGood + "<|message_user|>b", "[] [] call_0 f {} length"},
      {"<|content_invoke_tool_json|>" + kGood + "<|content_invoke_tool_json|>" + kGood + kEnd,
       "[] [] call_0 f {} call_1 f {} tool_calls"},
      {"<|message_user|>b" + kEnd, "[] [] stop"},  // the end of the turn in every state
      {"<|message_user|>b<|endoftext|>", "[] [] stop"},
      {"<|content_text|>a<|endoftext|>b", "[] [a] stop"},
      {"<|content_invoke_tool_json|>{" + kEnd, "[] [{] stop"},
  };
  for (const auto& [text, expected] : rows) EXPECT_EQ(both(ids_of(text)), expected) << text;
}

TEST(ReplyDecoder, StartsWhereThePromptLeftOff) {
  const Ids x = ids_of("x y");
  EXPECT_EQ(both(x, with_tools(), TurnEnd::kLength, {200001, 200004, 13225}), "[] [x y] length");
  EXPECT_EQ(both(x, with_tools(), TurnEnd::kLength, {200001, 200008, 13225}), "[x y] [] length");
  EXPECT_EQ(both(x, with_tools(), TurnEnd::kLength, {}), "[] [x y] length");
  EXPECT_EQ(both(ids_of("name"), with_tools(), TurnEnd::kLength, {200010}), "[] [name] length");
}

TEST(ReplyDecoder, GoesOnAfterTheEndOfTheTurnOnRequest) {
  ReplyOptions options = with_tools();
  options.ignore_end_of_turn = true;
  EXPECT_EQ(both(ids_of("<|content_text|>a" + kEnd + "b<|endoftext|><|content_thinking|>c"), options),
            "[c] [ab] length");
  options.ignore_end_of_turn = false;
  EXPECT_EQ(both(ids_of("<|content_text|>a" + kEnd + "b"), options), "[] [a] stop");
}

TEST(ReplyDecoder, DropsCallsUnderToolChoiceNone) {
  ReplyOptions options = with_tools();
  options.drop_calls = true;
  const std::string text = "<|end_message|><|message_model|><|content_text|>x" + kClosed;
  EXPECT_EQ(both(ids_of(call_block("f", kGood) + text), options), "[] [x] stop");
  EXPECT_EQ(both(ids_of(call_block("f", "{bad") + text), options), "[] [x] stop");
}

TEST(ReplyDecoder, ReportsAtMostTheAllowedCalls) {
  ReplyOptions options = with_tools();
  options.max_calls = 1;
  const Ids ids =
      ids_of(call_block("f", kGood) + "<|end_message|><|message_model|>" + call_block("f", kGood) + kClosed);
  EXPECT_EQ(both(ids, options), "[] [] call_0 f {} tool_calls");
}

TEST(ReplyDecoder, PutsReasoningWhereTheRequestWantsIt) {
  const Ids ids =
      ids_of("<|content_thinking|>plan<|end_message|><|message_model|><|content_text|>Hi" + kClosed);
  ReplyOptions options = with_tools();
  options.reasoning = ReasoningOutput::kHidden;
  EXPECT_EQ(both(ids, options), "[] [Hi] stop");
  EXPECT_EQ(decode(ids, options).message.num_reasoning_ids, 1);
  options.reasoning = ReasoningOutput::kInContent;
  EXPECT_EQ(both(ids, options), "[] [planHi] stop");
}

TEST(ReplyDecoder, CountsIds) {
  const ReplyMessage message =
      decode(ids_of("<|content_thinking|>a b c<|end_message|><|message_model|><|content_text|>Hi" + kClosed))
          .message;
  EXPECT_EQ(message.num_ids, 10);
  EXPECT_EQ(message.num_reasoning_ids, 3);
  EXPECT_EQ(decode(ids_of("<|content_thinking|>a b" + kEnd + "more")).message.num_ids, 4);
}

TEST(ReplyDecoder, ReplacesCutCharactersPerBlock) {
  const Ids crab = {4103, 99, 222};
  EXPECT_EQ(both(Ids{200004} + crab + Ids{200010, 200006}), "[] [🦀] stop");
  EXPECT_EQ(both(Ids{200004, 4103, 99, 200010, 200004, 222, 200010, 200006}), "[] [\ufffd\ufffd] stop");
  EXPECT_EQ(both(Ids{200008, 4103}), "[\ufffd] [] length");
}

ReplyOptions stopping(std::vector<std::string> stop) {
  ReplyOptions options = with_tools();
  options.stop = std::move(stop);
  return options;
}

TEST(ReplyDecoder, StopsInVisibleTextOnly) {
  const std::string text = "<|content_thinking|>END<|end_message|><|message_model|>" +
                           call_block("f", R"({"name":"f","args":{"a":"END"}})") +
                           "<|end_message|><|message_model|><|content_text|>the END is" + kClosed;
  const Turn turn = decode(ids_of(text), stopping({"END"}));
  EXPECT_EQ(both(ids_of(text), stopping({"END"})), R"([END] [the ] call_0 f {"a":"END"} stop)");
  EXPECT_EQ(turn.message.matched_stop, "END");
  EXPECT_EQ(turn.end, TurnEnd::kStop);
  EXPECT_EQ(both(ids_of(call_block("END", "{END") + kClosed), stopping({"END"})), "[] [{END] stop");
  EXPECT_EQ(decode(ids_of(call_block("END", "{END") + kClosed), stopping({"END"})).end, TurnEnd::kEndOfTurn);
}

TEST(ReplyDecoder, NeverMatchesAStopAcrossBlocks) {
  const std::string text =
      "<|content_text|>EN<|end_message|><|message_model|><|content_text|>D of it" + kClosed;
  EXPECT_EQ(both(ids_of(text), stopping({"END"})), "[] [END of it] stop");
  EXPECT_EQ(decode(ids_of(text), stopping({"END"})).end, TurnEnd::kEndOfTurn);
}

TEST(ReplyDecoder, NeverLeaksTheStartOfAStop) {
  const std::string stop = " is the answer";
  const Ids ids = ids_of("<|content_text|>Forty two is the answer to it");
  ReplyOptions options = stopping({stop});
  ReplyDecoder decoder(real_tokenizer(), real_special_tokens(), options, Ids{200001});
  std::vector<ReplyDelta> deltas;
  for (const std::int32_t id : ids) {
    decoder.push(id, deltas);
    EXPECT_EQ(joined(deltas).find(" is"), std::string::npos);
  }
  EXPECT_EQ(decoder.message().content, "Forty two");
  EXPECT_EQ(both(ids_of("<|content_text|>it is"), options), "[] [it is] length");
}

TEST(ReplyDecoder, MatchesStopsInABareAnswerToo) {
  EXPECT_EQ(both(ids_of("Yes" + kEnd), stopping({"es"})), "[] [Y] stop");
  EXPECT_EQ(decode(ids_of("Yes" + kEnd), stopping({"es"})).end, TurnEnd::kStop);
  ReplyOptions keep = stopping({"es"});
  keep.keep_stop = true;
  EXPECT_EQ(both(ids_of("Yes!" + kEnd), keep), "[] [Yes] stop");
}

TEST(ReplyDecoder, StopsAtIdsOfTheRequest) {
  ReplyOptions options = with_tools();
  options.stop_ids = {13225};  // "Hello": ordinary, cut from the text
  EXPECT_EQ(both(ids_of("<|content_text|>I say <|end_message|><|content_text|>Hello") + Ids{0}, options),
            "[] [I say ] stop");
  options.stop_ids = {200010};  // special: takes its effect, is not printed
  EXPECT_EQ(both(ids_of("<|content_invoke_tool_json|>" + kGood + "<|end_message|>x"), options),
            "[] [] call_0 f {} stop");
  EXPECT_EQ(both(ids_of("name<|end_message|>x"), options), "[] [name] stop");
  options.stop_ids = {200006};  // also the end of the turn: that wins
  EXPECT_EQ(both(ids_of("<|content_invoke_tool_json|>" + kGood + kClosed), options),
            "[] [] call_0 f {} tool_calls");
}

TEST(ReplyDecoder, ReportsAnAbort) {
  EXPECT_EQ(both(ids_of("<|content_text|>some"), with_tools(), TurnEnd::kAborted), "[] [some] abort");
}

TEST(ReplyDecoder, MakesRandomCallIds) {
  const std::string id = random_call_id();
  EXPECT_THAT(id, testing::MatchesRegex("call_[0-9A-Za-z]+"));
  EXPECT_EQ(id.size(), 29U);
  EXPECT_NE(id, random_call_id());
  std::string elsewhere;
  std::thread([&] { elsewhere = random_call_id(); }).join();
  EXPECT_NE(id, elsewhere) << "threads have seeds of their own";
}

TEST(ReplyOptionsOfARequest, FollowTheRequest) {
  ChatRequest request;
  EXPECT_FALSE(reply_options(request).tools_offered);
  request.tools.resize(1);
  request.tool_choice.kind = ToolChoice::Kind::kNone;
  request.parallel_tool_calls = false;
  EXPECT_TRUE(reply_options(request).tools_offered);
  EXPECT_TRUE(reply_options(request).drop_calls);
  EXPECT_EQ(reply_options(request).max_calls, 1U);
}

}  // namespace
}  // namespace inkstone::chat
