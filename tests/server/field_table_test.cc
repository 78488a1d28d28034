// SPDX-License-Identifier: Apache-2.0
// Rows of the table of fields (multimodal.md 6.2) that no other test of this folder is about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/server_rig.h"

namespace inkstone::test_support {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kEnd = "<|end_message|><|content_model_end_sampling|>";

json weather_tool() {
  return {
      {{"type", "function"},
       {"function",
        {{"name", "get_weather"}, {"parameters", {{"type", "object"}, {"properties", json::object()}}}}}}};
}

json schema_format(const char* nest) {
  const json schema = {{"type", "integer"}};
  if (std::string(nest).empty()) return {{"type", "json_schema"}, {"name", "x"}, {"schema", schema}};
  return {{"type", "json_schema"}, {nest, {{"name", "x"}, {"schema", schema}}}};
}

TEST(FieldTable, ResponsesOfChat) {
  ServerRig rig;
  const json reply = rig.post(kChat, chat_body()).json();
  EXPECT_THAT(reply["id"].get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(reply["object"], "chat.completion");
  EXPECT_GT(reply["created"], 1'700'000'000);
  EXPECT_EQ(reply["model"], "inkling-mini");
  EXPECT_EQ(reply["choices"][0]["index"], 0);
  EXPECT_TRUE(reply["choices"][0]["logprobs"].is_null());
  for (const char* key : {"prompt_tokens", "completion_tokens", "total_tokens"})
    EXPECT_GT(reply["usage"][key], 0) << key;
}

TEST(FieldTable, ParallelToolCalls) {
  ServerRig rig;
  const std::string call =
      R"(get_weather<|content_invoke_tool_json|>{"name":"get_weather","args":{}}<|end_message|>)";
  rig.answer_with(call + "<|message_model|>" + call + "<|content_model_end_sampling|>");
  json body = chat_body({{"tools", weather_tool()}});
  EXPECT_EQ(rig.post(kChat, body).json()["choices"][0]["message"]["tool_calls"].size(), 2U);
  body["parallel_tool_calls"] = false;
  EXPECT_EQ(rig.post(kChat, body).json()["choices"][0]["message"]["tool_calls"].size(), 1U);
}

TEST(FieldTable, StopTokenIdsAreCutAndReported) {
  ServerRig rig;
  rig.answer_with(std::string("<|content_text|>one two three") + kEnd);
  const std::int32_t two = ServerRig::ids("one two")[1];
  for (const bool stream : {false, true}) {
    const HttpReply reply = rig.post(kChat, chat_body({{"stop_token_ids", {two}}, {"stream", stream}}));
    const json choice = stream ? join_chunks(reply.events()) : reply.json()["choices"][0];
    EXPECT_EQ(choice["message"]["content"], "one");
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_THAT(reply.body, HasSubstr("\"stop_reason\":" + std::to_string(two)));
  }
}

TEST(FieldTable, IgnoreEosGoesOn) {
  ServerRig rig;
  rig.answer_with(std::string("<|content_text|>a") + kEnd);
  const json choice =
      rig.post(kChat, chat_body({{"ignore_eos", true}, {"max_tokens", 7}})).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
}

TEST(FieldTable, ContinuousUsage) {
  ServerRig rig;
  const json body = chat_body(
      {{"stream", true}, {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}});
  std::int64_t last = -1;
  for (const std::string& event : rig.post(kChat, body).events()) {
    if (event == "[DONE]") break;
    const json usage = json::parse(event)["usage"];
    ASSERT_TRUE(usage.is_object()) << event;
    EXPECT_GE(usage["completion_tokens"].get<std::int64_t>(), last);
    last = usage["completion_tokens"];
  }
  EXPECT_EQ(last, ServerRig::ids(std::string("<|content_text|>Hello world.") + kEnd).size());
}

TEST(FieldTable, ResponseFormatText) {
  ServerRig rig;
  ASSERT_EQ(rig.post(kChat, chat_body({{"response_format", {{"type", "text"}}}})).status, 200);
  EXPECT_EQ(rig.engine().last_submission().constraint, nullptr);
  for (const json& format : {json{{"type", "json_object"}}, schema_format("json_schema")}) {
    rig.answer_with(std::string("<|content_text|>{}") + kEnd);
    rig.post(kChat, chat_body({{"response_format", format}, {"max_tokens", 5}}));
    EXPECT_NE(rig.engine().last_submission().constraint, nullptr) << format;
  }
}

TEST(FieldTable, ContinueFinalMessage) {
  ServerRig rig;
  rig.answer_with(std::string(" is Paris.") + kEnd);
  json body = chat_body({{"continue_final_message", true}, {"add_generation_prompt", false}});
  body["messages"].push_back({{"role", "assistant"}, {"content", "The capital"}});
  const json reply = rig.post(kChat, body).json();
  EXPECT_EQ(reply["choices"][0]["message"]["content"], " is Paris.");
  EXPECT_THAT(rig.post("/render", body).json()["text"].get<std::string>(), testing::EndsWith("The capital"));
  EXPECT_EQ(
      rig.post(kChat, chat_body({{"continue_final_message", true}, {"add_generation_prompt", true}})).status,
      400);
}

TEST(FieldTable, AddGenerationPrompt) {
  ServerRig rig;
  const auto prompt = [&](bool add) {
    return rig.post("/render", chat_body({{"add_generation_prompt", add}})).json()["text"].get<std::string>();
  };
  EXPECT_EQ(prompt(true), prompt(false) + "<|message_model|>");
}

TEST(FieldTable, AcceptedWithoutEffect) {
  ServerRig rig;
  for (const json& members :
       {json{{"stream_reasoning", false}}, json{{"spaces_between_special_tokens", false}},
        json{{"user", "u"}}, json{{"metadata", {{"a", 1}}}}, json{{"store", true}},
        json{{"service_tier", "auto"}}, json{{"skip_special_tokens", false}},
        json{{"chat_template_kwargs", {{"reasoning_effort", "low"}}}}}) {
    const HttpReply reply = rig.post(kChat, chat_body(members));
    EXPECT_EQ(reply.status, 200) << members;
    EXPECT_FALSE(reply.headers.contains("x-inkstone-warning")) << members;
    EXPECT_THAT(reply.json()["choices"][0]["message"]["content"].get<std::string>(), Not(HasSubstr("<|")))
        << members;
  }
}

TEST(FieldTable, SkipSpecialTokensOfCompletions) {
  ServerRig rig;
  rig.answer_with("a<|end_message|>b<|content_model_end_sampling|>");
  const auto text = [&](bool skip) {
    return rig.post("/v1/completions", json{{"prompt", "x"}, {"skip_special_tokens", skip}})
        .json()["choices"][0]["text"];
  };
  EXPECT_EQ(text(true), "ab");
  EXPECT_EQ(text(false), "a<|end_message|>b");
}

TEST(FieldTable, UnsupportedParts) {
  ServerRig rig;
  for (const json& part :
       {json{{"type", "video_url"}, {"video_url", {{"url", "data:,"}}}}, json{{"type", "video"}},
        json{{"type", "input_video"}}, json{{"type", "hologram"}}}) {
    const HttpReply reply =
        rig.post(kChat, json{{"messages", {{{"role", "user"}, {"content", json::array({part})}}}}});
    EXPECT_EQ(reply.status, 400) << part;
    EXPECT_EQ(reply.json()["error"]["param"], "messages[0].content[0].type") << part;
  }
}

TEST(FieldTable, TextFormatOfResponses) {
  ServerRig rig;
  rig.answer_with(std::string("<|content_text|>5") + kEnd);
  const json reply =
      rig.post("/v1/responses", json{{"input", "x"}, {"text", {{"format", schema_format("")}}}}).json();
  EXPECT_EQ(reply["output"][0]["content"][0]["text"], "5");
  EXPECT_NE(rig.engine().last_submission().constraint, nullptr);
  json wrong = schema_format("");
  wrong["schema"] = {{"not", json::object()}};
  const HttpReply refused = rig.post("/v1/responses", json{{"input", "x"}, {"text", {{"format", wrong}}}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "text.format.schema.not");
}

TEST(FieldTable, ToolChoiceOfMessages) {
  ServerRig rig;
  const json tools = {{{"name", "get_weather"}, {"input_schema", {{"type", "object"}}}}};
  const std::string call =
      R"(get_weather<|content_invoke_tool_json|>{"name":"get_weather","args":{}}<|end_message|>)";
  rig.answer_with(call + "<|content_model_end_sampling|>");
  const auto ask = [&](const json& choice) {
    return rig.post("/v1/messages",
                    chat_body({{"max_tokens", 60}, {"tools", tools}, {"tool_choice", choice}}));
  };
  for (const json& choice : {json{{"type", "any"}}, json{{"type", "tool"}, {"name", "get_weather"}}}) {
    EXPECT_EQ(ask(choice).json()["stop_reason"], "tool_use") << choice;
    EXPECT_NE(rig.engine().last_submission().constraint, nullptr) << choice;
  }
  EXPECT_EQ(ask({{"type", "none"}}).json()["content"].size(), 0U);
  EXPECT_EQ(ask({{"type", "auto"}}).json()["stop_reason"], "tool_use");
  EXPECT_EQ(ask({{"type", "tool"}, {"name", "other"}}).status, 400);
  EXPECT_EQ(ask({{"type", "perhaps"}}).status, 400);
}

TEST(FieldTable, EffortOfMessages) {
  ServerRig rig;
  const auto prompt = [&](const json& members) {
    json body = chat_body(members);
    body["max_tokens"] = 5;
    EXPECT_EQ(rig.post("/v1/messages", body).status, 200) << members;
    return rig.engine().last_submission().prompt;
  };
  const auto low = prompt({{"output_config", {{"effort", "low"}}}});
  EXPECT_NE(low, prompt(json::object()));
  EXPECT_EQ(prompt({{"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}}), prompt(json::object()));
  EXPECT_EQ(low, prompt({{"output_config", {{"effort", "low"}}}, {"thinking", {{"type", "disabled"}}}}));
}

}  // namespace
}  // namespace inkstone::test_support
