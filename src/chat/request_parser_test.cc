// SPDX-License-Identifier: Apache-2.0
#include "chat/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat/effort.h"

namespace inkstone::chat {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

json with(const json& extra) {
  json request = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  request.update(extra);
  return request;
}

json with_message(const json& message) { return {{"messages", {message}}}; }

std::string error_of(const json& request) {
  const auto parsed = parse_chat_request(request.dump());
  return parsed ? "no error" : parsed.error().message;
}

json tool(const json& function) { return {{"type", "function"}, {"function", function}}; }

json call(const json& arguments, const std::string& name = "f") {
  return with_message(
      {{"role", "assistant"},
       {"tool_calls", {{{"id", "x"}, {"function", {{"name", name}, {"arguments", arguments}}}}}}});
}

double effort_of(const json& extra) {
  const auto parsed = parse_chat_request(with(extra).dump());
  return parsed ? parsed->effort : -1;
}

TEST(Effort, ReadsWordsAndNumbersInEverySpelling) {
  const std::vector<std::pair<json, std::string>> values = {
      {nullptr, "0.9"}, {"none", "0"},     {"minimal", "0.1"}, {"low", "0.2"},  {"medium", "0.7"},
      {"high", "0.9"},  {"xhigh", "0.99"}, {"max", "0.99"},    {0.37, "0.37"},  {"0.37", "0.37"},
      {0, "0"},         {-0.0, "0"},       {0.001, "0"},       {0.125, "0.12"}, {0.005, "0.01"},
      {0.015, "0.01"},  {0.123, "0.12"},   {0.99, "0.99"},     {"0.5", "0.5"},  {"0", "0"},
      {0.1, "0.1"}};
  for (const auto& [value, spelled] : values) {
    EXPECT_EQ(spell_effort(effort_of({{"reasoning_effort", value}})), spelled) << value;
    EXPECT_EQ(spell_effort(effort_of({{"reasoning", {{"effort", value}}}})), spelled) << value;
    EXPECT_EQ(spell_effort(effort_of({{"chat_template_kwargs", {{"reasoning_effort", value}}}})), spelled)
        << value;
    EXPECT_EQ(spell_effort(effort_of({{"output_config", {{"effort", value}}}})), spelled) << value;
  }
  EXPECT_EQ(effort_of(json::object()), 0.9);
}

TEST(Effort, RefusesOthersByName) {
  for (const json& value :
       {json("banana"), json("HIGH"), json(""), json(true), json(1), json(0.995), json(-0.1), json("nan"),
        json("1.5"), json("0.5x"), json(" 0.5"), json::array()}) {
    EXPECT_THAT(error_of(with({{"reasoning_effort", value}})), StartsWith("reasoning_effort: ")) << value;
    EXPECT_THAT(error_of(with({{"reasoning", {{"effort", value}}}})), StartsWith("reasoning.effort: "))
        << value;
  }
  EXPECT_THAT(error_of(with({{"chat_template_kwargs", {{"reasoning_effort", "banana"}}}})),
              StartsWith("chat_template_kwargs.reasoning_effort: unknown effort 'banana'"));
}

TEST(Effort, TakesTheFirstPlaceThatIsNotNull) {
  const json all = {{"reasoning_effort", "low"},
                    {"chat_template_kwargs", {{"reasoning_effort", "medium"}}},
                    {"reasoning", {{"effort", "minimal"}}},
                    {"output_config", {{"effort", "none"}}}};
  EXPECT_EQ(effort_of(all), 0.2);
  json some = all;
  some["reasoning_effort"] = nullptr;
  EXPECT_EQ(effort_of(some), 0.7);
  some.erase("chat_template_kwargs");
  EXPECT_EQ(effort_of(some), 0.1);
  some["reasoning"] = json::object();
  EXPECT_EQ(effort_of(some), 0.0);
}

// B12: another family's switch must not pass in silence.
TEST(RequestParser, WarnsOfSwitchesWithoutEffect) {
  const auto parsed = parse_chat_request(
      with({{"chat_template_kwargs", {{"enable_thinking", false}, {"reasoning_effort", "low"}}}}).dump());
  ASSERT_TRUE(parsed.has_value());
  ASSERT_EQ(parsed->warnings.size(), 1U);
  EXPECT_THAT(parsed->warnings[0], HasSubstr("chat_template_kwargs.enable_thinking"));
  EXPECT_EQ(parsed->effort, 0.2);
  EXPECT_THAT(parse_chat_request(with({{"user", "u"}}).dump())->warnings, IsEmpty());
}

TEST(RequestParser, NamesTheFieldAtFault) {
  const std::vector<std::pair<json, std::string>> faults = {
      {json::array(), "request: must be an object"},
      {json::object(), "messages: is missing"},
      {{{"messages", json::array()}}, "messages: must not be empty"},
      {{{"messages", "hi"}}, "messages: must be an array"},
      {with_message("hi"), "messages[0]: must be an object"},
      {with_message({{"content", "hi"}}), "messages[0].role: is missing"},
      {with_message({{"role", "narrator"}}), "messages[0].role: unknown role 'narrator'"},
      {with_message({{"role", "user"}, {"content", 5}}), "messages[0].content: must be"},
      {with_message({{"role", "user"}, {"content", true}}), "messages[0].content: must be"},
      {with_message({{"role", "user"}, {"content", json::object()}}), "messages[0].content: must be"},
      {with_message({{"role", "user"}, {"content", {5}}}), "messages[0].content[0]: must be an object"},
      {with_message({{"role", "user"}, {"content", {{{"type", "text"}}}}}),
       "messages[0].content[0].text: is missing"},
      {with_message({{"role", "user"}, {"content", {{{"text", 1}}}}}),
       "messages[0].content[0].text: must be a string"},
      {with_message({{"role", "user"}, {"content", {{{"type", "video_url"}}}}}),
       "messages[0].content[0].type: unknown part type 'video_url'"},
      {with_message({{"role", "user"}, {"content", {{{"type", "thinking"}, {"text", "x"}}}}}),
       "messages[0].content[0].type: thinking is accepted in assistant messages only"},
      {with_message(
           {{"role", "system"}, {"content", {{{"type", "input_audio"}, {"input_audio", {{"data", "A"}}}}}}}),
       "messages[0].content[0].type: audio is accepted in user messages only"},
      {with_message({{"role", "user"}, {"content", {{{"type", "image_url"}}}}}),
       "messages[0].content[0]: has no 'image_url'"},
      {with_message({{"role", "assistant"},
                     {"reasoning_content", "a"},
                     {"content", {{{"type", "thinking"}, {"thinking", "b"}}}}}),
       "messages[0]: has reasoning both as a field and as content parts"},
      {with_message({{"role", "assistant"}, {"tool_calls", {{{"function", {{"arguments", "{}"}}}}}}}),
       "messages[0].tool_calls[0].function.name: must be a name"},
      {call("[]"), "messages[0].tool_calls[0].function.arguments: must decode to an object"},
      {call("{\"a\":}"), "messages[0].tool_calls[0].function.arguments: parse error"},
      {call("{\"a\":1e400}"), "messages[0].tool_calls[0].function.arguments: number overflow"},
      {call("{\"a\":NaN}"), "messages[0].tool_calls[0].function.arguments: parse error"},
      {call("{\"a\":\"\\ud800\"}"), "messages[0].tool_calls[0].function.arguments: parse error"},
      {call(json(std::string("{}\0x", 4))), "messages[0].tool_calls[0].function.arguments: holds a NUL byte"},
      {call(7), "messages[0].tool_calls[0].function.arguments: must be an object"},
      {call("{}", "a b"), "messages[0].tool_calls[0].function.name: must be a name"},
      {call("{}", std::string(65, 'a')), "messages[0].tool_calls[0].function.name: must be a name"},
      {with_message({{"role", "tool"}, {"name", "<|end_message|>"}}), "messages[0].name: must be a name"},
      {with({{"tools", {tool({{"name", "<|x|>"}})}}}), "tools[0].function.name: must be a name"},
      {with({{"tools", {tool({{"name", "f"}, {"parameters", 3}})}}}),
       "tools[0].function.parameters: must be an object"},
      {with({{"tools", {{{"type", "function"}}}}}), "tools[0].function: must be an object"},
      {with({{"tools", 3}}), "tools: must be an array"},
      {with({{"tool_choice", "required"}}), "tool_choice: there are no tools"},
      {with({{"tool_choice", "sometimes"}}), "tool_choice: must be"},
      {with({{"tool_choice", tool({{"name", "g"}})}}), "tool_choice: there is no tool 'g'"},
      {with({{"continue_final_message", true}}), "continue_final_message: the last message"},
      {with({{"add_generation_prompt", "no"}}), "add_generation_prompt: must be true or false"},
      {with({{"chat_template_kwargs", 1}}), "chat_template_kwargs: must be an object"},
  };
  for (const auto& [request, message] : faults)
    EXPECT_THAT(error_of(request), StartsWith(message)) << request;
}

TEST(RequestParser, RefusesToContinueWhatIsNoPlainAnswer) {
  const auto continued = [](json message) {
    message["role"] = "assistant";
    json request = with({{"continue_final_message", true}});
    request["messages"].push_back(message);
    return error_of(request);
  };
  EXPECT_EQ(continued({{"content", "2, 3,"}}), "no error");
  EXPECT_EQ(continued({{"content", ""}}), "no error");
  for (const json& message : {json{{"content", nullptr}}, json{{"content", {"2"}}},
                              json{{"content", "2"}, {"reasoning_content", "r"}},
                              json{{"content", "2"}, {"tool_calls", {{{"function", {{"name", "f"}}}}}}}}) {
    EXPECT_THAT(continued(message), StartsWith("continue_final_message: ")) << message;
  }
}

TEST(RequestParser, PrefersReasoningContent) {
  const auto reasoning = [](const json& fields) {
    json message = {{"role", "assistant"}, {"content", "x"}};
    message.update(fields);
    const auto parsed = parse_chat_request(with_message(message).dump());
    return parsed->messages[0].parts.size() == 2 ? parsed->messages[0].parts[0].text : "";
  };
  EXPECT_EQ(reasoning({{"reasoning_content", "a"}, {"reasoning", "b"}}), "a");
  EXPECT_EQ(reasoning({{"reasoning_content", ""}, {"reasoning", "b"}}), "b");
  EXPECT_EQ(reasoning({{"reasoning_content", nullptr}, {"reasoning", ""}}), "");
}

TEST(RequestParser, CollectsToolsOfDeveloperMessagesAfterTheOthers) {
  json request = with({{"tools", {tool({{"name", "a"}, {"strict", true}}), tool({{"name", "b"}})}}});
  request["messages"].push_back({{"role", "developer"}, {"tools", {tool({{"name", "c"}})}}});
  const auto parsed = parse_chat_request(request.dump());
  ASSERT_TRUE(parsed.has_value());
  ASSERT_EQ(parsed->tools.size(), 3U);
  EXPECT_EQ(parsed->tools[0].declaration,
            R"({"description":"","name":"a","parameters":{},"type":"function"})");
  EXPECT_EQ(parsed->tools[2].name, "c");
}

TEST(RequestParser, ReadsToolChoiceAndOutputSwitches) {
  const json tools = {tool({{"name", "f"}})};
  const auto kind = [&](const json& choice) {
    return parse_chat_request(with({{"tools", tools}, {"tool_choice", choice}}).dump())->tool_choice.kind;
  };
  EXPECT_EQ(kind(nullptr), ToolChoice::Kind::kAuto);
  EXPECT_EQ(kind("auto"), ToolChoice::Kind::kAuto);
  EXPECT_EQ(kind("none"), ToolChoice::Kind::kNone);
  EXPECT_EQ(kind("required"), ToolChoice::Kind::kRequired);
  EXPECT_EQ(kind(tool({{"name", "f"}})), ToolChoice::Kind::kNamed);
  const auto parsed = parse_chat_request(
      R"({"messages":[{"role":"user","content":"x"}],"parallel_tool_calls":false,"include_reasoning":false,)"
      R"("response_format":{"type":"json_schema","json_schema":{"z":1,"a":2}}})");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_FALSE(parsed->parallel_tool_calls);
  EXPECT_EQ(parsed->reasoning, ReasoningOutput::kHidden);
  EXPECT_EQ(parsed->response_format, R"({"type":"json_schema","json_schema":{"z":1,"a":2}})");
}

TEST(RequestParser, KeepsMediaReferencesInOrder) {
  const json parts = {
      {{"type", "image_url"}, {"image_url", {{"url", "u0"}, {"detail", "low"}}}},
      {{"type", "image_url"}, {"image_url", "u1"}},
      {{"type", "input_image"}, {"image_url", "u2"}},
      {{"type", "image"}, {"source", {{"type", "base64"}, {"media_type", "image/png"}, {"data", "d3"}}}},
      {{"type", "input_audio"}, {"input_audio", {{"data", "d4"}, {"format", "wav"}}}},
      {{"type", "audio_url"}, {"audio_url", {{"url", "u5"}}}},
      {{"type", "input_audio"}, {"input_audio", {{"file", "u6"}, {"format", "wav"}}}}};
  const auto parsed = parse_chat_request(with_message({{"role", "user"}, {"content", parts}}).dump());
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  std::vector<std::string> found;
  for (const MediaReference* media : media_of(*parsed)) found.push_back(media->url + media->data);
  EXPECT_THAT(found, ElementsAre("u0", "u1", "u2", "d3", "d4", "u5", "u6"));
  EXPECT_EQ(media_of(*parsed)[3]->format, "image/png");
  EXPECT_EQ(media_of(*parsed)[4]->kind, MediaKind::kAudio);
  EXPECT_EQ(media_of(*parsed)[4]->field, "messages[0].content[4].input_audio.data");
}

TEST(RequestParser, RefusesBrokenJson) {
  for (const std::string text : {"", "{", "{\"messages\":[]}x", "{\"a\":\"\\ud83d\"}", "{\"a\":\"\\udc00x\"}",
                                 "\xff", "{\"a\":\"\xc0\xaf\"}", "{\"a\":NaN}", "{'a':1}"}) {
    const auto parsed = parse_chat_request(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, StartsWith("request: "));
  }
}

TEST(RequestParser, RefusesDeepJsonWithoutHarm) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string deep;
    for (int level = 0; level < 10000; ++level) deep += open;
    const auto parsed = parse_chat_request(deep);
    ASSERT_FALSE(parsed.has_value());
    EXPECT_THAT(parsed.error().message, HasSubstr("nested deeper than"));
    EXPECT_THAT(error_of(call(deep)), HasSubstr("arguments: nested deeper than"));
  }
}

}  // namespace
}  // namespace inkstone::chat
