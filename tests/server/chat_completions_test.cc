// SPDX-License-Identifier: Apache-2.0
// POST /v1/chat/completions: what clients get for what the model generates, whole and streamed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/server_rig.h"

namespace inkstone::test_support {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kEnd = "<|end_message|><|content_model_end_sampling|>";

json tools() {
  return {
      {{"type", "function"},
       {"function",
        {{"name", "get_weather"}, {"parameters", {{"type", "object"}, {"properties", json::object()}}}}}}};
}

json without_ids(json choice) {
  for (json& call : choice["message"]["tool_calls"]) call.erase("id");
  if (choice["message"]["tool_calls"].is_null()) choice["message"].erase("tool_calls");
  return {{"message", choice["message"]}, {"finish_reason", choice["finish_reason"]}};
}

struct Case {
  const char* name;
  std::string generated;
  json expected_message;
  const char* finish;
};

std::vector<Case> cases() {
  const std::string thinking = "<|content_thinking|>plan<|end_message|><|message_model|>";
  const std::string call =
      R"(get_weather<|content_invoke_tool_json|>{"name":"get_weather","args":{"city":"SF"}})";
  const json calls = {
      {{"type", "function"}, {"function", {{"name", "get_weather"}, {"arguments", R"({"city":"SF"})"}}}}};
  return {
      {"text", std::string("<|content_text|>Hello!") + kEnd, {{"content", "Hello!"}}, "stop"},
      {"thinking, then text",
       thinking + "<|content_text|>Hello!" + kEnd,
       {{"content", "Hello!"}, {"reasoning_content", "plan"}},
       "stop"},
      {"a call without a role opener",
       call + kEnd,
       {{"content", nullptr}, {"tool_calls", calls}},
       "tool_calls"},
      {"thinking, text, call",
       thinking + "<|content_text|>Checking.<|end_message|><|message_model|>" + call + kEnd,
       {{"content", "Checking."}, {"reasoning_content", "plan"}, {"tool_calls", calls}},
       "tool_calls"},
      {"empty thinking, then text",
       std::string("<|content_thinking|><|end_message|><|message_model|><|content_text|>Hi") + kEnd,
       {{"content", "Hi"}},
       "stop"},
      {"emoji over several tokens",
       std::string("<|content_text|>\xF0\x9F\xA6\x91\xF0\x9F\x8F\xBD ok") + kEnd,
       {{"content", "\xF0\x9F\xA6\x91\xF0\x9F\x8F\xBD ok"}},
       "stop"},
  };
}

TEST(ChatCompletions, WholeAndStreamedAnswersAreTheSameMessage) {
  ServerRig rig;
  for (const Case& c : cases()) {
    rig.answer_with(c.generated);
    const json body = chat_body({{"tools", tools()}});
    const HttpReply whole = rig.post("/v1/chat/completions", body);
    ASSERT_EQ(whole.status, 200) << c.name << whole.body;
    json expected = {{"role", "assistant"}};
    expected.update(c.expected_message);
    const json choice = without_ids(whole.json()["choices"][0]);
    EXPECT_EQ(choice["message"], expected) << c.name;
    EXPECT_EQ(choice["finish_reason"], c.finish) << c.name;

    json streamed_body = body;
    streamed_body["stream"] = true;
    const HttpReply streamed = rig.post("/v1/chat/completions", streamed_body);
    EXPECT_EQ(streamed.headers.at("content-type"), "text/event-stream; charset=utf-8");
    EXPECT_EQ(streamed.events().back(), "[DONE]");
    EXPECT_EQ(without_ids(join_chunks(streamed.events())), choice) << c.name;
    EXPECT_THAT(streamed.body, Not(HasSubstr("<|"))) << "a marker reached the client";
  }
}

TEST(ChatCompletions, ADeltaCarriesOneKind) {
  ServerRig rig;
  rig.answer_with(cases()[3].generated);
  const HttpReply reply = rig.post("/v1/chat/completions", chat_body({{"tools", tools()}, {"stream", true}}));
  const std::vector<std::string> events = reply.events();
  EXPECT_EQ(json::parse(events.front())["choices"][0]["delta"]["role"], "assistant");
  for (std::size_t idx = 1; idx + 1 < events.size(); ++idx)
    EXPECT_LE(json::parse(events[idx])["choices"][0]["delta"].size(), 1U) << events[idx];
}

TEST(ChatCompletions, ReportUsage) {
  ServerRig rig;
  rig.answer_with(cases()[1].generated);
  const json usage = rig.post("/v1/chat/completions", chat_body()).json()["usage"];
  EXPECT_EQ(usage["completion_tokens"], ServerRig::ids(cases()[1].generated).size());
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + usage["completion_tokens"].get<int>());
  EXPECT_EQ(usage["completion_tokens_details"]["reasoning_tokens"], ServerRig::ids("plan").size());
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 0);

  const json streaming = chat_body({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
  const std::vector<std::string> events = rig.post("/v1/chat/completions", streaming).events();
  const json last = json::parse(events[events.size() - 2]);
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(last["usage"], usage);
  EXPECT_TRUE(json::parse(events.front())["usage"].is_null());
}

TEST(ChatCompletions, StopStringsCutVisibleTextOnly) {
  ServerRig rig;
  rig.answer_with(
      std::string(
          "<|content_thinking|>END in thought<|end_message|><|message_model|><|content_text|>one END two") +
      kEnd);
  for (const bool stream : {false, true}) {
    const json body = chat_body({{"stop", {"END"}}, {"stream", stream}});
    const HttpReply reply = rig.post("/v1/chat/completions", body);
    const json choice = stream ? join_chunks(reply.events()) : reply.json()["choices"][0];
    EXPECT_EQ(choice["message"]["content"], "one ");
    EXPECT_EQ(choice["message"]["reasoning_content"], "END in thought");
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_THAT(reply.body, HasSubstr(R"("stop_reason":"END")"));
    EXPECT_THAT(reply.body, Not(HasSubstr("two")));
  }
  const json kept = chat_body({{"stop", "END"}, {"include_stop_str_in_output", true}});
  EXPECT_EQ(rig.post("/v1/chat/completions", kept).json()["choices"][0]["message"]["content"], "one END");
}

TEST(ChatCompletions, StopStringsNeverLeakAPrefix) {
  ServerRig rig;
  rig.answer_with(std::string("<|content_text|>abc STOPPING and STOP here") + kEnd);
  const HttpReply reply =
      rig.post("/v1/chat/completions", chat_body({{"stop", "STOP here"}, {"stream", true}}));
  EXPECT_EQ(join_chunks(reply.events())["message"]["content"], "abc STOPPING and ");
}

TEST(ChatCompletions, HandFieldsOnToTheEngine) {
  ServerRig rig;
  const json fields = {{"temperature", 0.5},
                       {"top_p", 0.9},
                       {"top_k", 40},
                       {"min_p", 0.1},
                       {"seed", 7},
                       {"repetition_penalty", 1.1},
                       {"presence_penalty", 0.25},
                       {"frequency_penalty", -0.5},
                       {"max_completion_tokens", 9},
                       {"min_tokens", 2},
                       {"ignore_eos", true},
                       {"stop_token_ids", {3, 4}},
                       {"logit_bias", {{"5", -100}, {"6", 2.5}}},
                       {"logprobs", true},
                       {"top_logprobs", 2},
                       {"priority", 3},
                       {"cache_salt", "mine"},
                       {"n", 2}};
  ASSERT_EQ(rig.post("/v1/chat/completions", chat_body(fields)).status, 200);
  const engine::Submission got = rig.engine().last_submission();
  EXPECT_EQ(got.sampling.temperature, 0.5);
  EXPECT_EQ(got.sampling.top_p, 0.9);
  EXPECT_EQ(got.sampling.top_k, 40);
  EXPECT_EQ(got.sampling.min_p, 0.1);
  EXPECT_EQ(got.sampling.seed, 7U);
  EXPECT_EQ(got.sampling.choice, 1U);
  EXPECT_EQ(got.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(got.sampling.presence_penalty, 0.25);
  EXPECT_EQ(got.sampling.frequency_penalty, -0.5);
  EXPECT_EQ(got.sampling.max_tokens, 9);
  EXPECT_EQ(got.sampling.min_tokens, 2);
  EXPECT_TRUE(got.sampling.ignore_eos);
  EXPECT_THAT(got.sampling.stop_token_ids, testing::ElementsAre(3, 4));
  EXPECT_THAT(got.sampling.logit_bias, testing::ElementsAre(testing::Pair(5, -100), testing::Pair(6, 2.5)));
  EXPECT_EQ(got.sampling.logprobs, 2);
  EXPECT_EQ(got.priority, 3);
  EXPECT_EQ(got.salt, "mine");
  EXPECT_FALSE(got.boundaries.empty());
}

TEST(ChatCompletions, DefaultsAreThoseOfTheTable) {
  ServerRig rig;
  ASSERT_EQ(rig.post("/v1/chat/completions", chat_body()).status, 200);
  const engine::Submission got = rig.engine().last_submission();
  EXPECT_EQ(got.sampling.temperature, 1);
  EXPECT_EQ(got.sampling.top_p, 1);
  EXPECT_EQ(got.sampling.top_k, 0);
  EXPECT_EQ(got.sampling.min_p, 0);
  EXPECT_EQ(got.sampling.repetition_penalty, 1);
  EXPECT_EQ(got.sampling.presence_penalty, 0);
  EXPECT_EQ(got.sampling.frequency_penalty, 0);
  EXPECT_FALSE(got.sampling.max_tokens);
  EXPECT_EQ(got.sampling.min_tokens, 0);
  EXPECT_FALSE(got.sampling.ignore_eos);
  EXPECT_FALSE(got.sampling.logprobs);
  EXPECT_TRUE(got.sampling.seed) << "drawn for the request";
}

TEST(ChatCompletions, LogprobsHaveOneEntryPerToken) {
  ServerRig rig;
  rig.answer_with(cases()[1].generated);
  const json fields = {{"logprobs", true}, {"top_logprobs", 3}};
  const json entries =
      rig.post("/v1/chat/completions", chat_body(fields)).json()["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(entries.size(), ServerRig::ids(cases()[1].generated).size());
  EXPECT_EQ(entries[0]["logprob"], -0.5);
  EXPECT_EQ(entries[0]["top_logprobs"].size(), 3U);
  EXPECT_EQ(entries[0]["token"], "") << "a marker has no spelling";

  json streamed = json::array();
  json streaming = chat_body(fields);
  streaming["stream"] = true;
  const HttpReply reply = rig.post("/v1/chat/completions", streaming);
  for (const std::string& event : reply.events()) {
    if (event == "[DONE]") break;
    const json logprobs = json::parse(event)["choices"][0]["logprobs"];
    if (!logprobs.is_null())
      for (const json& entry : logprobs["content"]) streamed.push_back(entry);
  }
  EXPECT_EQ(streamed, entries);
}

TEST(ChatCompletions, LengthEndsWithWhatThereIs) {
  ServerRig rig;
  rig.answer_with(cases()[1].generated);
  const json choice = rig.post("/v1/chat/completions", chat_body({{"max_tokens", 2}})).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_TRUE(choice["message"]["content"].is_null());
}

TEST(ChatCompletions, EffortIsReadInEverySpelling) {
  ServerRig rig;
  const auto prompt_of = [&](const json& members) {
    EXPECT_EQ(rig.post("/v1/chat/completions", chat_body(members)).status, 200) << members;
    return rig.engine().last_submission().prompt;
  };
  for (const json& effort : {json("none"), json("minimal"), json("low"), json("medium"), json("high"),
                             json("xhigh"), json("max"), json(0.37), json("0.37")}) {
    const auto flat = prompt_of({{"reasoning_effort", effort}});
    EXPECT_EQ(flat, prompt_of({{"reasoning", {{"effort", effort}}}})) << effort;
    EXPECT_EQ(flat, prompt_of({{"chat_template_kwargs", {{"reasoning_effort", effort}}}})) << effort;
  }
  EXPECT_EQ(prompt_of({{"reasoning_effort", 0.9}}), prompt_of(json::object()));
  for (const json& members : {json{{"reasoning_effort", "banana"}},
                              json{{"reasoning", {{"effort", "banana"}}}}, json{{"reasoning_effort", 1.5}}}) {
    const HttpReply reply = rig.post("/v1/chat/completions", chat_body(members));
    EXPECT_EQ(reply.status, 400);
    EXPECT_THAT(reply.json()["error"]["param"], HasSubstr("effort"));
  }
}

TEST(ChatCompletions, ReasoningCanBeHiddenOrPutIntoTheContent) {
  ServerRig rig;
  rig.answer_with(cases()[1].generated);
  json message = rig.post("/v1/chat/completions", chat_body({{"include_reasoning", false}}))
                     .json()["choices"][0]["message"];
  EXPECT_FALSE(message.contains("reasoning_content"));
  EXPECT_EQ(message["content"], "Hello!");
  message = rig.post("/v1/chat/completions", chat_body({{"separate_reasoning", false}}))
                .json()["choices"][0]["message"];
  EXPECT_EQ(message["content"], "planHello!");
}

TEST(ChatCompletions, ToolChoiceNoneDropsCalls) {
  ServerRig rig;
  rig.answer_with(cases()[2].generated);
  const json choice =
      rig.post("/v1/chat/completions", chat_body({{"tools", tools()}, {"tool_choice", "none"}}))
          .json()["choices"][0];
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST(ChatCompletions, WarnOfWhatHasNoEffect) {
  ServerRig rig;
  const HttpReply reply =
      rig.post("/v1/chat/completions", chat_body({{"foo\r\nbar", 1}, {"enable_thinking", false}}));
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.headers.at("x-inkstone-warning"), HasSubstr("enable_thinking"));
  EXPECT_THAT(reply.headers.at("x-inkstone-warning"), HasSubstr("foo??bar"));
  const json silent = {{"user", "u"},
                       {"metadata", {{"a", "b"}}},
                       {"store", true},
                       {"service_tier", "auto"},
                       {"parallel_tool_calls", true},
                       {"skip_special_tokens", true}};
  EXPECT_FALSE(rig.post("/v1/chat/completions", chat_body(silent)).headers.contains("x-inkstone-warning"));
}

TEST(ChatCompletions, RefuseUnknownFieldsWhereTheServerIsStrict) {
  server::ApiServerOptions options;
  options.limits.strict_fields = true;
  ServerRig rig(options);
  EXPECT_EQ(rig.post("/v1/chat/completions", chat_body({{"user", "u"}, {"top_k", 3}})).status, 200);
  for (const auto& [path, body] :
       std::vector<std::pair<std::string, json>>{{"/v1/chat/completions", chat_body()},
                                                 {"/v1/completions", {{"prompt", "x"}}},
                                                 {"/v1/responses", {{"input", "x"}}}}) {
    json wrong = body;
    wrong["wizardry"] = 1;
    const HttpReply reply = rig.post(path, wrong);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_EQ(reply.json()["error"]["param"], "wizardry") << path;
    EXPECT_EQ(rig.post(path, body).status, 200) << path;
  }
}

struct WrongField {
  json members;
  std::string param;
};

TEST(ChatCompletions, NameTheFieldThatIsWrong) {
  ServerRig rig;
  const std::vector<WrongField> wrong = {
      {{{"messages", nullptr}}, "messages"},
      {{{"messages", json::array()}}, "messages"},
      {{{"messages", {{{"role", "wizard"}, {"content", "x"}}}}}, "messages[0].role"},
      {{{"stream", "yes"}}, "stream"},
      {{{"stream_options", 1}}, "stream_options"},
      {{{"stop", 5}}, "stop"},
      {{{"stop", {"a", 5}}}, "stop[1]"},
      {{{"stop", ""}}, "stop"},
      {{{"stop_token_ids", {1, -1}}}, "stop_token_ids[1]"},
      {{{"stop_token_ids", "x"}}, "stop_token_ids"},
      {{{"logit_bias", {{"x", 1}}}}, "logit_bias"},
      {{{"logit_bias", {{"1", "x"}}}}, "logit_bias"},
      {{{"logit_bias", {{"1", 101}}}}, "logit_bias"},
      {{{"logit_bias", {{"99999999", 1}}}}, "logit_bias"},
      {{{"logprobs", 1}}, "logprobs"},
      {{{"top_logprobs", 2}}, "top_logprobs"},
      {{{"ignore_eos", 1}}, "ignore_eos"},
      {{{"tools", 3}}, "tools"},
      {{{"tool_choice", "sometimes"}}, "tool_choice"},
      {{{"response_format", {{"type", "yaml"}}}}, "response_format.type"},
      {{{"model", 4}}, "model"},
  };
  for (const WrongField& c : wrong) {
    const HttpReply reply = rig.post("/v1/chat/completions", chat_body(c.members));
    EXPECT_EQ(reply.status, 400) << c.members;
    const json error = reply.json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error") << c.members;
    EXPECT_EQ(error["param"], c.param) << c.members << reply.body;
    EXPECT_TRUE(error["message"].is_string());
    EXPECT_TRUE(error.contains("code"));
  }
}

TEST(ChatCompletions, RefuseWhatIsNoJsonObject) {
  ServerRig rig;
  for (const char* body : {"", "{", "[]", "\"x\"", "null", "{\"messages\":[]}x", "\xff\xfe"})
    EXPECT_EQ(rig.post_raw("/v1/chat/completions", body).status, 400) << body;
}

TEST(ChatCompletions, KnowTheServedNames) {
  ServerRig rig;
  EXPECT_EQ(rig.post("/v1/chat/completions", chat_body({{"model", "alias"}})).status, 200);
  const HttpReply reply = rig.post("/v1/chat/completions", chat_body({{"model", "gpt-4o"}}));
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.json()["error"]["param"], "model");
}

TEST(ChatCompletions, ReportWhatTheEngineRefuses) {
  ServerRig rig;
  rig.engine().refuse_with({ErrorKind::kTooLarge, "the prompt has 5000 tokens, the context has 4096"});
  const HttpReply reply = rig.post("/v1/chat/completions", chat_body());
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.json()["error"]["message"], HasSubstr("4096"));
}

TEST(ChatCompletions, ReportAFaultBeforeAndWithinAStream) {
  ServerRig rig;
  rig.answer_with("<|content_text|>one two three four");
  rig.engine().fail_after(2);
  const HttpReply whole = rig.post("/v1/chat/completions", chat_body());
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.json()["error"]["type"], "server_error");
  const HttpReply streamed = rig.post("/v1/chat/completions", chat_body({{"stream", true}}));
  const std::vector<std::string> events = streamed.events();
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(json::parse(events[events.size() - 2])["error"]["message"], "the device failed");
}

TEST(ChatCompletions, ChoicesOfOneSeedDiffer) {
  ServerRig rig;
  rig.engine().set_script([](const engine::Submission& submission) {
    return ServerRig::ids("<|content_text|>" + std::to_string(*submission.sampling.seed) + "/" +
                          std::to_string(submission.sampling.choice) + kEnd);
  });
  const json choices = rig.post("/v1/chat/completions", chat_body({{"n", 4}, {"seed", 7}})).json()["choices"];
  ASSERT_EQ(choices.size(), 4U);
  for (std::size_t idx = 0; idx < choices.size(); ++idx) {
    EXPECT_EQ(choices[idx]["index"], idx);
    EXPECT_EQ(choices[idx]["message"]["content"], "7/" + std::to_string(idx));
  }
  const HttpReply streamed =
      rig.post("/v1/chat/completions", chat_body({{"n", 4}, {"seed", 7}, {"stream", true}}));
  for (int idx = 0; idx < 4; ++idx)
    EXPECT_EQ(join_chunks(streamed.events(), idx)["message"]["content"], "7/" + std::to_string(idx));
}

}  // namespace
}  // namespace inkstone::test_support
