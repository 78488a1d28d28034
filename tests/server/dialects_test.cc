// SPDX-License-Identifier: Apache-2.0
// /v1/responses and /v1/messages: the same answers in other words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/server_rig.h"

namespace inkstone::test_support {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kAnswer =
    "<|content_thinking|>plan<|end_message|><|message_model|><|content_text|>Checking.<|end_message|><|"
    "message_model|>"
    "get_weather<|content_invoke_tool_json|>{\"name\":\"get_weather\",\"args\":{\"city\":\"SF\"}}<|end_"
    "message|>"
    "<|content_model_end_sampling|>";

json last_of_type(const std::vector<std::string>& events, const std::string& type) {
  json found;
  for (const std::string& event : events)
    if (json parsed = json::parse(event); parsed["type"] == type) found = parsed;
  return found;
}

json chat_prompt(ServerRig& rig, const json& body) { return rig.post("/render", body).json()["ids"]; }

TEST(Responses, ItemsComeInTheOrderOfTheirGeneration) {
  ServerRig rig;
  rig.answer_with(kAnswer);
  const json tools = {{{"type", "function"}, {"name", "get_weather"}, {"parameters", {{"type", "object"}}}}};
  json body = {{"input", "Hi"}, {"tools", tools}};
  const json whole = rig.post("/v1/responses", body).json();
  ASSERT_EQ(whole["output"].size(), 3U) << whole;
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_EQ(whole["output"][0]["type"], "reasoning");
  EXPECT_EQ(whole["output"][0]["content"][0]["text"], "plan");
  EXPECT_EQ(whole["output"][1]["content"][0]["text"], "Checking.");
  EXPECT_EQ(whole["output"][2]["name"], "get_weather");
  EXPECT_EQ(whole["output"][2]["arguments"], R"({"city":"SF"})");
  EXPECT_EQ(whole["tools"], tools);
  EXPECT_GT(whole["usage"]["output_tokens_details"]["reasoning_tokens"], 0);

  body["stream"] = true;
  const HttpReply streamed = rig.post("/v1/responses", body);
  const json final = last_of_type(streamed.events(), "response.completed")["response"];
  ASSERT_EQ(final["output"].size(), 3U);
  for (std::size_t idx = 0; idx < 2; ++idx)
    EXPECT_EQ(final["output"][idx]["content"], whole["output"][idx]["content"]);
  EXPECT_EQ(final["usage"], whole["usage"]);
  EXPECT_EQ(last_of_type(streamed.events(), "response.function_call_arguments.done")["arguments"],
            R"({"city":"SF"})");
  int sequence = 0;
  for (const std::string& event : streamed.events())
    EXPECT_EQ(json::parse(event)["sequence_number"], sequence++);
}

TEST(Responses, InputItemsBecomeTheSamePromptAsMessages) {
  ServerRig rig;
  const json body = {{"instructions", "Be brief."},
                     {"reasoning", {{"effort", "low"}}},
                     {"input",
                      {{{"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "Weather?"}}}}},
                       {{"type", "reasoning"},
                        {"id", "rs_1"},
                        {"summary", json::array()},
                        {"content", {{{"type", "reasoning_text"}, {"text", "I call."}}}}},
                       {{"type", "function_call"},
                        {"call_id", "c1"},
                        {"name", "get_weather"},
                        {"arguments", R"({"city":"SF"})"}},
                       {{"type", "function_call_output"}, {"call_id", "c1"}, {"output", "sunny"}}}}};
  ASSERT_EQ(rig.post("/v1/responses", body).status, 200);
  const json chat = {{"reasoning_effort", "low"},
                     {"messages",
                      {{{"role", "system"}, {"content", "Be brief."}},
                       {{"role", "user"}, {"content", "Weather?"}},
                       {{"role", "assistant"},
                        {"reasoning_content", "I call."},
                        {"content", nullptr},
                        {"tool_calls",
                         {{{"id", "c1"},
                           {"type", "function"},
                           {"function", {{"name", "get_weather"}, {"arguments", R"({"city":"SF"})"}}}}}}},
                       {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "sunny"}}}}};
  EXPECT_EQ(json(rig.engine().last_submission().prompt), chat_prompt(rig, chat));
}

TEST(Responses, LimitsEndAnAnswerIncomplete) {
  ServerRig rig;
  rig.answer_with(kAnswer);
  const json reply = rig.post("/v1/responses", json{{"input", "Hi"}, {"max_output_tokens", 2}}).json();
  EXPECT_EQ(reply["status"], "incomplete");
  EXPECT_EQ(reply["incomplete_details"]["reason"], "max_output_tokens");
}

TEST(Responses, NameTheFieldThatIsWrong) {
  ServerRig rig;
  for (const auto& [members, param] : std::vector<std::pair<json, std::string>>{
           {{{"input", nullptr}}, "input"},
           {{{"input", 5}}, "input"},
           {{{"input", {{{"type", "magic"}}}}}, "input[0].type"},
           {{{"max_output_tokens", 0}}, "max_output_tokens"},
           {{{"temperature", "x"}}, "temperature"},
           {{{"previous_response_id", "r"}}, "previous_response_id"},
           {{{"background", true}}, "background"},
           {{{"tools", {{{"type", "web_search"}}}}}, "tools[0].type"}}) {
    json body = {{"input", "x"}};
    body.update(members);
    const HttpReply reply = rig.post("/v1/responses", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.json()["error"]["param"], param) << body << reply.body;
  }
}

TEST(Messages, BlocksComeInTheOrderOfTheirGeneration) {
  ServerRig rig;
  rig.answer_with(kAnswer);
  json body = chat_body(
      {{"max_tokens", 100}, {"tools", {{{"name", "get_weather"}, {"input_schema", {{"type", "object"}}}}}}});
  const json whole = rig.post("/v1/messages", body).json();
  ASSERT_EQ(whole["content"].size(), 3U) << whole;
  EXPECT_EQ(whole["content"][0]["thinking"], "plan");
  EXPECT_EQ(whole["content"][1]["text"], "Checking.");
  EXPECT_EQ(whole["content"][2]["input"]["city"], "SF");
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  EXPECT_EQ(whole["usage"]["input_tokens"],
            rig.post("/v1/messages/count_tokens", body).json()["input_tokens"]);

  body["stream"] = true;
  const HttpReply streamed = rig.post("/v1/messages", body);
  std::vector<std::string> text(3);
  for (const std::string& event : streamed.events()) {
    const json parsed = json::parse(event);
    if (parsed["type"] != "content_block_delta") continue;
    for (const char* key : {"thinking", "text", "partial_json"})
      if (parsed["delta"].contains(key)) text[parsed["index"].get<std::size_t>()] += parsed["delta"][key];
  }
  EXPECT_THAT(text, testing::ElementsAre("plan", "Checking.", R"({"city":"SF"})"));
  EXPECT_EQ(last_of_type(streamed.events(), "message_delta")["delta"]["stop_reason"], "tool_use");
  EXPECT_THAT(streamed.body, HasSubstr("event: message_stop"));
  EXPECT_THAT(streamed.body, Not(HasSubstr("<|")));
}

TEST(Messages, BlocksBecomeTheSamePromptAsMessages) {
  ServerRig rig;
  const json body = {
      {"max_tokens", 5},
      {"system", {{{"type", "text"}, {"text", "Be brief."}}}},
      {"thinking", {{"type", "disabled"}}},
      {"messages",
       {{{"role", "user"}, {"content", "Weather?"}},
        {{"role", "assistant"},
         {"content",
          {{{"type", "thinking"}, {"thinking", "I call."}, {"signature", "s"}},
           {{"type", "tool_use"}, {"id", "c1"}, {"name", "get_weather"}, {"input", {{"city", "SF"}}}}}}},
        {{"role", "user"},
         {"content",
          {{{"type", "tool_result"}, {"tool_use_id", "c1"}, {"is_error", true}, {"content", "sunny"}},
           {{"type", "text"}, {"text", "Go on."}}}}}}}};
  ASSERT_EQ(rig.post("/v1/messages", body).status, 200);
  const json chat = {{"reasoning_effort", "none"},
                     {"messages",
                      {{{"role", "system"}, {"content", "Be brief."}},
                       {{"role", "user"}, {"content", "Weather?"}},
                       {{"role", "assistant"},
                        {"reasoning_content", "I call."},
                        {"content", nullptr},
                        {"tool_calls",
                         {{{"id", "c1"},
                           {"type", "function"},
                           {"function", {{"name", "get_weather"}, {"arguments", R"({"city":"SF"})"}}}}}}},
                       {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "sunny"}},
                       {{"role", "user"}, {"content", "Go on."}}}}};
  EXPECT_EQ(json(rig.engine().last_submission().prompt), chat_prompt(rig, chat));
}

TEST(Messages, HaveStopReasonsAndErrorsOfTheirOwn) {
  ServerRig rig;
  rig.answer_with("<|content_text|>one STOP two<|end_message|><|content_model_end_sampling|>");
  const json stopped =
      rig.post("/v1/messages", chat_body({{"max_tokens", 50}, {"stop_sequences", {"STOP"}}})).json();
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "STOP");
  EXPECT_EQ(rig.post("/v1/messages", chat_body({{"max_tokens", 1}})).json()["stop_reason"], "max_tokens");
  EXPECT_EQ(rig.post("/v1/messages", chat_body({{"max_tokens", 50}})).json()["stop_reason"], "end_turn");
  const HttpReply missing = rig.post("/v1/messages", chat_body());
  EXPECT_EQ(missing.status, 400);
  EXPECT_EQ(missing.json()["type"], "error");
  EXPECT_THAT(missing.json()["error"]["message"], HasSubstr("max_tokens"));
  rig.engine().fail_after(1);
  const HttpReply broken = rig.post("/v1/messages", chat_body({{"max_tokens", 50}, {"stream", true}}));
  EXPECT_THAT(broken.body, HasSubstr("event: error"));
}

}  // namespace
}  // namespace inkstone::test_support
