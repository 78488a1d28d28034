// SPDX-License-Identifier: Apache-2.0
// /v1/completions, /tokenize, /detokenize, /render, /v1/models and the small ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/server_rig.h"
#include "tests/support/real_tokenizer.h"

namespace inkstone::test_support {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Completions, ContinueTextsAndIdsAlike) {
  ServerRig rig;
  rig.answer_with(" there<|content_model_end_sampling|>");
  const std::vector<std::int32_t> ids = ServerRig::ids("<|message_user|>Hi");
  for (const json& prompt :
       {json("<|message_user|>Hi"), json(ids), json::array({"<|message_user|>Hi"}), json::array({ids})}) {
    const json reply = rig.post("/v1/completions", json{{"prompt", prompt}}).json();
    ASSERT_EQ(reply["choices"].size(), 1U) << prompt << reply;
    EXPECT_EQ(reply["choices"][0]["text"], " there");
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(reply["object"], "text_completion");
    EXPECT_EQ(reply["usage"]["prompt_tokens"], ids.size());
    EXPECT_EQ(rig.engine().last_submission().prompt, ids);
    EXPECT_EQ(rig.engine().last_submission().sampling.max_tokens, 16);
  }
}

TEST(Completions, AnswerEveryPromptNTimes) {
  ServerRig rig;
  rig.engine().set_script([](const engine::Submission& submission) {
    return ServerRig::ids(std::to_string(submission.prompt.size()) + "." +
                          std::to_string(submission.sampling.choice) + "<|content_model_end_sampling|>");
  });
  const json body = {{"prompt", {{1, 2, 3}, {4}}}, {"n", 2}};
  const json choices = rig.post("/v1/completions", body).json()["choices"];
  ASSERT_EQ(choices.size(), 4U);
  EXPECT_EQ(choices[0]["text"], "3.0");
  EXPECT_EQ(choices[1]["text"], "3.1");
  EXPECT_EQ(choices[2]["text"], "1.0");
  EXPECT_EQ(choices[3]["text"], "1.1");
}

TEST(Completions, StreamTheSameText) {
  ServerRig rig;
  rig.answer_with("one two STOP three");
  for (const json& extra : {json::object(), json{{"stop", "STOP"}}, json{{"echo", true}}}) {
    json body = {{"prompt", "Say:"}};
    body.update(extra);
    const json whole = rig.post("/v1/completions", body).json()["choices"][0];
    body["stream"] = true;
    std::string text;
    json finish;
    const HttpReply streamed = rig.post("/v1/completions", body);
    for (const std::string& event : streamed.events()) {
      if (event == "[DONE]") break;
      const json choice = json::parse(event)["choices"][0];
      text += choice["text"];
      if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
    }
    EXPECT_EQ(whole["text"], text);
    EXPECT_EQ(whole["finish_reason"], finish);
  }
}

TEST(Completions, ReportLogprobsInParallelArrays) {
  ServerRig rig;
  rig.answer_with("one two<|content_model_end_sampling|>");
  const json body = {{"prompt", "x"}, {"logprobs", 2}};
  const json logprobs = rig.post("/v1/completions", body).json()["choices"][0]["logprobs"];
  const std::size_t count = ServerRig::ids("one two").size() + 1;
  EXPECT_EQ(logprobs["tokens"].size(), count);
  EXPECT_EQ(logprobs["token_logprobs"].size(), count);
  EXPECT_EQ(logprobs["top_logprobs"].size(), count);
}

TEST(Completions, OffsetsCountTheCharactersBeforeAToken) {
  ServerRig rig;
  rig.answer_with("\xC3\xA9t\xC3\xA9 is here<|content_model_end_sampling|>");
  for (const bool echo : {false, true}) {
    const json body = {{"prompt", "Was it"}, {"logprobs", 0}, {"echo", echo}};
    const json choice = rig.post("/v1/completions", body).json()["choices"][0];
    const json& offsets = choice["logprobs"]["text_offset"];
    EXPECT_EQ(offsets[0], 0);
    // Before the end that has no text stand all characters; halves of a character stand where it begins.
    EXPECT_EQ(offsets.back(), echo ? 17 : 11);
    for (std::size_t idx = 1; idx < offsets.size(); ++idx) EXPECT_LE(offsets[idx - 1], offsets[idx]);
  }
}

TEST(Completions, ScoreThePromptThatTheyEcho) {
  ServerRig rig;
  const std::vector<std::int32_t> prompt = ServerRig::ids("<|message_user|>one two<|end_message|> three");
  const std::vector<std::int32_t> answer = ServerRig::ids(" four<|content_model_end_sampling|>");
  rig.engine().set_script([&](const auto&) { return answer; });
  json body = {{"prompt", prompt}, {"echo", true}, {"logprobs", 2}};
  const json whole = rig.post("/v1/completions", body).json();
  const json& choice = whole["choices"][0];
  EXPECT_EQ(choice["text"], "<|message_user|>one two<|end_message|> three four");
  EXPECT_EQ(choice["finish_reason"], "stop");
  const json& logprobs = choice["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), prompt.size() + answer.size());
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["top_logprobs"][0].is_null());
  for (std::size_t idx = 1; idx < prompt.size(); ++idx)
    EXPECT_EQ(logprobs["token_logprobs"][idx], -0.5) << idx;
  EXPECT_EQ(logprobs["tokens"][1], "one") << "the prompt's own, whatever the model would say";
  EXPECT_EQ(whole["usage"]["prompt_tokens"], prompt.size());
  EXPECT_EQ(whole["usage"]["completion_tokens"], answer.size());

  body["stream"] = true;
  json streamed = {{"tokens", json::array()}, {"text_offset", json::array()}};
  std::string text;
  for (const std::string& event : rig.post("/v1/completions", body).events()) {
    if (event == "[DONE]") break;
    const json part = json::parse(event)["choices"][0];
    text += part["text"];
    if (part["logprobs"].is_null()) continue;
    for (const char* key : {"tokens", "text_offset"})
      for (const json& entry : part["logprobs"][key]) streamed[key].push_back(entry);
  }
  EXPECT_EQ(text, choice["text"]);
  EXPECT_EQ(streamed["tokens"], logprobs["tokens"]);
  EXPECT_EQ(streamed["text_offset"], logprobs["text_offset"]);
}

TEST(Completions, ScoreAPromptAndNothingElse) {
  ServerRig rig;
  rig.answer_with(" more");
  for (const char* prompt : {"one two three", "a"}) {
    const json body = {{"prompt", prompt}, {"echo", true}, {"logprobs", 0}, {"max_tokens", 0}};
    const json reply = rig.post("/v1/completions", body).json();
    EXPECT_EQ(reply["choices"][0]["text"], prompt);
    EXPECT_EQ(reply["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(reply["choices"][0]["logprobs"]["tokens"].size(), ServerRig::ids(prompt).size());
    EXPECT_EQ(reply["usage"]["completion_tokens"], 0);
  }
  const json echo =
      rig.post("/v1/completions", json{{"prompt", "a"}, {"echo", true}, {"max_tokens", 0}}).json();
  EXPECT_EQ(echo["choices"][0]["text"], "a");
  EXPECT_EQ(echo["usage"]["completion_tokens"], 0);
}

TEST(Completions, RefuseWhatWouldCountAScoredPromptAsTheAnswer) {
  ServerRig rig;
  for (const auto& [members, param] :
       std::vector<std::pair<json, std::string>>{{{{"presence_penalty", 0.5}}, "presence_penalty"},
                                                 {{{"frequency_penalty", 0.5}}, "frequency_penalty"},
                                                 {{{"min_tokens", 1}}, "min_tokens"},
                                                 {{{"prompt", {mini_special_tokens().image_slot}}}, "prompt"},
                                                 {{{"prompt", std::vector<int>(4090, 5)}}, "prompt"}}) {
    json body = {{"prompt", "x"}, {"echo", true}, {"logprobs", 1}};
    body.update(members);
    const HttpReply reply = rig.post("/v1/completions", body);
    EXPECT_EQ(reply.status, 400) << param;
    EXPECT_EQ(reply.json()["error"]["param"], param) << reply.body;
  }
}

TEST(Completions, NameTheFieldThatIsWrong) {
  ServerRig rig;
  for (const auto& [members, param] :
       std::vector<std::pair<json, std::string>>{{{{"prompt", nullptr}}, "prompt"},
                                                 {{{"prompt", 5}}, "prompt"},
                                                 {{{"prompt", ""}}, "prompt"},
                                                 {{{"prompt", json::array()}}, "prompt"},
                                                 {{{"prompt", {"a", 5}}}, "prompt[1]"},
                                                 {{{"prompt", {1, -5}}}, "prompt[1]"},
                                                 {{{"max_tokens", 0}}, "max_tokens"},
                                                 {{{"max_tokens", 1.5}}, "max_tokens"},
                                                 {{{"logprobs", 21}}, "logprobs"},
                                                 {{{"suffix", "x"}}, "suffix"}}) {
    json body = {{"prompt", "x"}};
    body.update(members);
    const HttpReply reply = rig.post("/v1/completions", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.json()["error"]["param"], param) << body;
  }
}

TEST(Tokenize, CountsTextsAndConversations) {
  ServerRig rig;
  const json text = rig.post("/tokenize", json{{"prompt", "<|message_user|>Hi"}}).json();
  EXPECT_EQ(text["tokens"], ServerRig::ids("<|message_user|>Hi"));
  EXPECT_EQ(text["count"], text["tokens"].size());
  EXPECT_EQ(text["max_model_len"], 4096);
  const json ordinary =
      rig.post("/tokenize", json{{"prompt", "<|message_user|>Hi"}, {"add_special_tokens", false}}).json();
  EXPECT_GT(ordinary["count"], text["count"]);
  const json chat = rig.post("/tokenize", chat_body()).json();
  EXPECT_EQ(chat["tokens"], rig.post("/render", chat_body()).json()["ids"]);
  EXPECT_EQ(rig.post("/tokenize", json{{"text", "x"}}).json()["error"]["param"], "prompt");
}

TEST(Detokenize, GivesTheTextBack) {
  ServerRig rig;
  const std::string text = "<|message_user|>Hi \xF0\x9F\xA6\x91";
  EXPECT_EQ(rig.post("/detokenize", json{{"tokens", ServerRig::ids(text)}}).json()["prompt"], text);
  for (const json& tokens : {json("x"), json(nullptr), json{1, 99999999}, json{1, "x"}, json{-1}, json{1.5}})
    EXPECT_EQ(rig.post("/detokenize", json{{"tokens", tokens}}).status, 400) << tokens;
}

TEST(Render, SpellsThePrompt) {
  ServerRig rig;
  EXPECT_THAT(rig.post("/render", chat_body()).json()["text"].get<std::string>(),
              HasSubstr("<|message_user|><|content_text|>Hi"));
}

TEST(StatusEndpoints, AnswerWithoutTheEngine) {
  ServerRig rig;
  rig.engine().hold(true);
  const json models = rig.get("/v1/models").json();
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "inkling-mini");
  EXPECT_EQ(models["data"][0]["max_model_len"], 4096);
  EXPECT_EQ(rig.get("/ready").status, 200);
  EXPECT_EQ(rig.get("/health?x=1").status, 200);
  const HttpReply page = rig.get("/");
  EXPECT_THAT(page.headers.at("content-type"), HasSubstr("text/html"));
  EXPECT_THAT(page.body, HasSubstr("Inkstone"));
  EXPECT_THAT(page.body, testing::Not(HasSubstr("http://")));
  EXPECT_THAT(page.body, testing::Not(HasSubstr("https://")));
}

}  // namespace
}  // namespace inkstone::test_support
