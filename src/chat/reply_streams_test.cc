// SPDX-License-Identifier: Apache-2.0
// The reply decoder over recorded replies cut at every id, and over random streams.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "chat/prompt_encoder.h"
#include "chat/reply_decoder.h"
#include "chat/request_parser.h"
#include "tests/support/real_tokenizer.h"
#include "tests/support/reply_invariants.h"

namespace inkstone::chat {
namespace {

using nlohmann::json;
using test_support::examine_reply;
using test_support::mini_special_tokens;
using test_support::mini_tokenizer;
using test_support::ReplyCase;
using test_support::ReplyFinding;
using Ids = std::vector<std::int32_t>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kNumStreams = 10'000;
#else
constexpr int kNumStreams = 100'000;
#endif

json transcripts() {
  return json::parse(test_support::read_source_file("tests/data/golden/transcripts.json"));
}

ReplyFinding examine(const ReplyCase& reply) {
  return examine_reply(mini_tokenizer(), mini_special_tokens(), reply);
}

ReplyMessage decode(const ReplyCase& reply) {
  ReplyDecoder decoder(mini_tokenizer(), mini_special_tokens(), reply.options, reply.prompt);
  std::vector<ReplyDelta> deltas;
  for (const std::int32_t id : reply.ids) decoder.push(id, deltas);
  decoder.finish(TurnEnd::kLength, deltas);
  return decoder.message();
}

TEST(ReplyStreams, EqualTheWholeAtEveryCutOfEveryTranscript) {
  for (const json& transcript : transcripts()) {
    const Ids ids = transcript["greedy_ids"].get<Ids>();
    ReplyCase reply;
    reply.options.tools_offered = transcript["request"].contains("tools");
    reply.prompt = transcript["prompt_ids"].get<Ids>();
    for (std::size_t end = 0; end <= ids.size(); ++end) {
      reply.ids.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(end));
      const ReplyFinding finding = examine(reply);
      ASSERT_EQ(finding.fault, "") << transcript["text"] << " cut at " << end;
    }
  }
}

// Recorded replies with calls, and what a client should get of them.
TEST(ReplyStreams, GiveTheRecordedCallsAtEveryCut) {
  std::istringstream lines(test_support::read_source_file("tests/data/evals/tool_calls.jsonl"));
  int num_calls = 0;
  for (std::string line; std::getline(lines, line);) {
    const json task = json::parse(line);
    const json& reference = task["reference"];
    const Ids ids = reference["ids"].get<Ids>();
    ReplyCase reply;
    reply.options.tools_offered = true;
    reply.prompt = {mini_special_tokens().message_model};
    for (std::size_t end = 0; end <= ids.size(); ++end) {
      reply.ids.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(end));
      ASSERT_EQ(examine(reply).fault, "") << line << " cut at " << end;
    }
    const ReplyMessage message = decode(reply);
    EXPECT_EQ(message.content, reference["content"]) << line;
    EXPECT_EQ(message.reasoning, reference["reasoning"]) << line;
    ASSERT_EQ(message.tool_calls.size(), reference["calls"].size()) << line;
    for (std::size_t idx = 0; idx < message.tool_calls.size(); ++idx, ++num_calls) {
      EXPECT_EQ(message.tool_calls[idx].name, reference["calls"][idx]["name"]);
      EXPECT_EQ(json::parse(message.tool_calls[idx].arguments), reference["calls"][idx]["arguments"]);
    }
  }
  EXPECT_GT(num_calls, 10);
}

json assistant_message(const ReplyMessage& reply) {
  json message = {{"role", "assistant"}, {"content", nullptr}};
  if (!reply.reasoning.empty()) message["reasoning_content"] = reply.reasoning;
  if (!reply.content.empty()) message["content"] = reply.content;
  for (const ReplyCall& call : reply.tool_calls) {
    const json function = {{"name", call.name}, {"arguments", call.arguments}};
    message["tool_calls"].push_back({{"id", call.id}, {"type", "function"}, {"function", function}});
  }
  return message;
}

// A client that sends the reply back gets the very ids that the model made: so caches hit in the next turn.
// (B06: the same in the first and in later turns, several transcripts being such.)
TEST(ReplyStreams, ComeBackAsTheSameIdsInTheNextTurn) {
  const PromptEncoder encoder(mini_tokenizer(), mini_special_tokens());
  int num_compared = 0;
  for (const json& transcript : transcripts()) {
    if (!transcript["prompt_follows_chat_spec"] || transcript["task"] == "image" ||
        transcript["task"] == "audio")
      continue;
    const Ids prompt = transcript["prompt_ids"].get<Ids>();
    const Ids ids = transcript["greedy_ids"].get<Ids>();
    ReplyCase reply;
    reply.options.tools_offered = true;
    reply.prompt = prompt;
    reply.ids = ids;
    json request = transcript["request"];
    request["messages"].push_back(assistant_message(decode(reply)));
    request["add_generation_prompt"] = false;
    Ids expected = prompt;
    expected.insert(expected.end(), ids.begin(), ids.end());
    EXPECT_EQ(encoder.encode(*parse_chat_request(request.dump()))->ids, expected) << transcript["text"];
    ++num_compared;
  }
  EXPECT_GT(num_compared, 80);
}

// Streams of markers, names, payloads and odd bytes in any order.
class RandomStream {
 public:
  explicit RandomStream(unsigned seed) : random_(seed) {}

  ReplyCase next() {
    ReplyCase reply;
    reply.options.tools_offered = pick(2) == 0;
    reply.options.drop_calls = pick(8) == 0;
    reply.options.ignore_end_of_turn = pick(4) == 0;
    if (pick(8) == 0) reply.options.max_calls = 1;
    if (pick(4) == 0) reply.options.stop = {"END", "the ", "\xEF\xBF\xBD\xEF\xBF\xBD"};
    reply.options.keep_stop = pick(2) == 0;
    if (pick(8) == 0) reply.options.stop_ids = {special(), ordinary_[pick(ordinary_.size())]};
    reply.prompt = {special()};
    for (std::size_t length = pick(24); reply.ids.size() < length;) append(reply.ids);
    return reply;
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }
  std::int32_t special() { return static_cast<std::int32_t>(2000 + pick(44)); }  // some of no token at all

  void append(Ids& ids) {
    static const std::vector<std::string> kTexts = {R"({"name":"f","args":{}})",
                                                    R"({"args":{"a":[1,"}"]},"name":"g"})",
                                                    R"({"name":"f","args":{"x":"y"})",
                                                    R"({"name":"f","args":)",
                                                    R"({"a":"b"}})",
                                                    R"({"name":"","args":{}})",
                                                    "f",
                                                    "get_weather",
                                                    "EN",
                                                    "D",
                                                    "the end",
                                                    " "};
    switch (pick(6)) {
      case 0:
        return ids.push_back(ordinary_[pick(ordinary_.size())]);
      case 1:
        ids.push_back(mini_special_tokens().content_tool_call);
        [[fallthrough]];
      case 2: {
        const Ids text = mini_tokenizer().encode_ordinary(kTexts[pick(kTexts.size())]);
        ids.insert(ids.end(), text.begin(), text.end());
        return;
      }
      default:
        return ids.push_back(special());
    }
  }

  // Single bytes give broken characters; nothing holds '|', so that a '|' in the output is a marker that
  // leaked.
  static Ids ordinary_ids() {
    Ids ids;
    for (std::int32_t id = 0; id < 400; ++id) {
      if (mini_tokenizer().token_bytes(id).find('|') == std::string_view::npos) ids.push_back(id);
    }
    return ids;
  }

  std::mt19937 random_;
  const Ids ordinary_ = ordinary_ids();
};

TEST(ReplyStreams, EqualTheWholeForRandomIds) {
  RandomStream streams(2026);
  int num_strict = 0;
  std::size_t num_calls = 0;
  for (int round = 0; round < kNumStreams; ++round) {
    const ReplyCase reply = streams.next();
    const ReplyFinding finding = examine(reply);
    ASSERT_EQ(finding.fault, "") << "stream " << round << ": " << testing::PrintToString(reply.ids);
    num_strict += finding.strictly_equal ? 1 : 0;
    num_calls += finding.num_calls;
  }
  EXPECT_GT(num_strict, kNumStreams * 3 / 4);
  EXPECT_GT(num_calls, static_cast<std::size_t>(kNumStreams) / 100);
}

// The check itself must see a marker that leaks.
TEST(ReplyStreams, WouldShowALeakedMarker) {
  ReplyCase reply;
  reply.prompt = {mini_special_tokens().content_text};
  reply.ids = mini_tokenizer().encode_ordinary("<|end_message|>");
  EXPECT_NE(examine(reply).fault, "");
}

}  // namespace
}  // namespace inkstone::chat
