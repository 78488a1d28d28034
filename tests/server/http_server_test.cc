// SPDX-License-Identifier: Apache-2.0
// Connections as clients misuse them: limits, half requests, slow readers, leaving, and the end of the
// server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <string>

#include "server/metrics.h"
#include "tests/server/server_rig.h"

namespace inkstone::test_support {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

server::ApiServerOptions with_limits(const server::HttpLimits& limits) {
  server::ApiServerOptions options;
  options.http.limits = limits;
  return options;
}

TEST(HttpServer, AnswersSeveralRequestsOfOneConnection) {
  ServerRig rig;
  HttpClient client(rig.port());
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(client.send(get_text("/version")));
    const HttpReply reply = client.read();
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.json()["version"], "test");
  }
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  ServerRig rig;
  HttpClient client(rig.port());
  ASSERT_TRUE(client.send(post_text("/v1/chat/completions", chat_body().dump()) + get_text("/version") +
                          get_text("/nothing")));
  EXPECT_EQ(client.read().json()["object"], "chat.completion");
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.read().status, 404);
}

TEST(HttpServer, TakesARequestInSingleBytes) {
  ServerRig rig;
  HttpClient client(rig.port());
  for (const char byte : post_text("/tokenize", R"({"prompt":"Hi"})")) ASSERT_TRUE(client.send({&byte, 1}));
  EXPECT_EQ(client.read().status, 200);
}

TEST(HttpServer, SendsContinueToClientsThatAskFirst) {
  ServerRig rig;
  HttpClient client(rig.port());
  const std::string body = R"({"prompt":"Hi"})";
  ASSERT_TRUE(client.send("POST /tokenize HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: " +
                          std::to_string(body.size()) + "\r\n\r\n"));
  EXPECT_TRUE(client.wait_for("100 Continue"));
  ASSERT_TRUE(client.send(body));
  EXPECT_EQ(client.read().status, 200);
}

TEST(HttpServer, HeadHasNoBody) {
  ServerRig rig;
  HttpClient client(rig.port());
  ASSERT_TRUE(client.send("HEAD /version HTTP/1.1\r\nhost: x\r\n\r\n" + get_text("/version")));
  ASSERT_TRUE(client.wait_for("\r\n\r\nHTTP/1.1 200"));
}

TEST(HttpServer, SaysWhichMethodsAPathTakes) {
  ServerRig rig;
  const HttpReply reply = rig.get("/v1/chat/completions");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "POST");
  EXPECT_EQ(rig.get("/v1/embeddings").status, 404);
}

TEST(HttpServer, RefusesWhatIsNoHttp) {
  ServerRig rig;
  HttpClient client(rig.port());
  ASSERT_TRUE(client.send("\x16\x03\x01 hello\r\n\r\n"));
  EXPECT_EQ(client.read().status, 400);
  EXPECT_TRUE(client.closed_within(5s));
}

TEST(HttpServer, RefusesLargeHeadersAndBodies) {
  ServerRig rig(with_limits({.header_bytes = 2048, .body_bytes = 1000}));
  EXPECT_EQ(rig.get("/version", "x-long: " + std::string(4000, 'a') + "\r\n").status, 431);
  EXPECT_EQ(rig.post_raw("/tokenize", std::string(1000, ' ')).status, 400)
      << "at the limit: read, and no JSON";
  const HttpReply reply = rig.post_raw("/tokenize", std::string(1001, ' '));
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.json()["error"]["message"], HasSubstr("1000"));
}

TEST(HttpServer, RefusesTooManyMessages) {
  server::ApiServerOptions options;
  options.limits.max_messages = 3;
  ServerRig rig(options);
  nlohmann::json body = {{"messages", nlohmann::json::array()}};
  for (int count = 0; count < 3; ++count) body["messages"].push_back({{"role", "user"}, {"content", "a"}});
  EXPECT_EQ(rig.post("/v1/chat/completions", body).status, 200);
  body["messages"].push_back({{"role", "user"}, {"content", "a"}});
  const HttpReply reply = rig.post("/v1/chat/completions", body);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["param"], "messages");
}

TEST(HttpServer, EndsHalfSentRequests) {
  ServerRig rig(with_limits({.idle = 60s, .header = 200ms, .body = 200ms}));
  HttpClient header(rig.port());
  HttpClient body(rig.port());
  ASSERT_TRUE(header.send("POST /tokenize HTTP/1.1\r\nhost"));
  ASSERT_TRUE(body.send("POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"));
  EXPECT_EQ(header.read().status, 408);
  EXPECT_EQ(body.read().status, 408);
  EXPECT_TRUE(header.closed_within(5s));
  EXPECT_TRUE(body.closed_within(5s));
}

TEST(HttpServer, EndsIdleConnectionsWithoutAWord) {
  ServerRig rig(with_limits({.idle = 200ms}));
  HttpClient client(rig.port());
  EXPECT_TRUE(client.closed_within(10s));
  EXPECT_EQ(client.read(1ms).status, 0);
}

TEST(HttpServer, CancelsTheAnswerOfAClientThatLeavesAStream) {
  ServerRig rig;
  rig.engine().set_script([](const auto&) { return ServerRig::ids("<|content_text|>go on and on"); });
  rig.engine().set_step_time(1ms);
  {
    HttpClient client(rig.port());
    ASSERT_TRUE(client.send(post_text("/v1/chat/completions", chat_body({{"stream", true}}).dump())));
    ASSERT_TRUE(client.wait_for("go"));
  }
  EXPECT_TRUE(eventually([&] { return rig.engine().cancelled() == 1; }));
  EXPECT_TRUE(eventually([&] { return rig.engine().stats().running == 0; }));
}

TEST(HttpServer, CancelsTheAnswerOfAClientThatLeavesWhileWaiting) {
  ServerRig rig;
  rig.engine().hold(true);
  {
    HttpClient client(rig.port());
    ASSERT_TRUE(client.send(post_text("/v1/chat/completions", chat_body({{"n", 3}}).dump())));
    ASSERT_TRUE(eventually([&] { return rig.engine().stats().waiting == 3; }));
  }
  EXPECT_TRUE(eventually([&] { return rig.engine().cancelled() == 3; }));
}

TEST(HttpServer, DropsAClientThatDoesNotReadAndServesOthers) {
  ServerRig rig(with_limits({.unsent_bytes = 64 * 1024}));
  rig.engine().set_script([](const auto&) { return ServerRig::ids("<|content_text|> on"); });
  HttpClient slow(rig.port(), 4096);
  ASSERT_TRUE(slow.send(
      post_text("/v1/chat/completions", chat_body({{"stream", true}, {"max_tokens", 1000000}}).dump())));
  EXPECT_TRUE(eventually([&] { return rig.engine().cancelled() == 1; }));
  rig.answer_with("<|content_text|>fine<|end_message|><|content_model_end_sampling|>");
  EXPECT_EQ(rig.post("/v1/chat/completions", chat_body()).status, 200);
}

TEST(HttpServer, DropsAClientThatTakesNoByteInTime) {
  server::HttpLimits limits;
  limits.unsent_bytes = std::size_t{1} << 30;
  limits.send = 300ms;
  ServerRig rig(with_limits(limits));
  rig.engine().set_script([](const auto&) { return ServerRig::ids("<|content_text|> on"); });
  rig.engine().set_step_time(20us);
  HttpClient slow(rig.port(), 4096);
  ASSERT_TRUE(slow.send(
      post_text("/v1/chat/completions", chat_body({{"stream", true}, {"max_tokens", 10000000}}).dump())));
  EXPECT_TRUE(eventually([&] { return rig.engine().cancelled() == 1; }, 60s));
}

TEST(HttpServer, FinishesAnswersWhenItIsToldToStop) {
  ServerRig rig;
  rig.engine().hold(true);
  HttpClient idle(rig.port());
  HttpClient waiting(rig.port());
  ASSERT_TRUE(waiting.send(post_text("/v1/chat/completions", chat_body().dump())));
  ASSERT_TRUE(eventually([&] { return rig.engine().stats().waiting == 1; }));
  rig.server().drain();
  EXPECT_TRUE(idle.closed_within(10s));
  rig.engine().hold(false);
  const HttpReply reply = waiting.read();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(waiting.closed_within(10s));
}

TEST(HttpServer, SaysThatItIsEndingWhileAnswersAreInProgress) {
  ServerRig rig;
  rig.engine().hold(true);
  HttpClient waiting(rig.port());
  ASSERT_TRUE(waiting.send(post_text("/v1/chat/completions", chat_body().dump())));
  ASSERT_TRUE(eventually([&] { return rig.engine().stats().waiting == 1; }));
  rig.server().drain();
  const HttpReply ready = rig.get("/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(ready.json()["error"]["code"], "shutting_down");
  EXPECT_EQ(ready.headers.at("connection"), "close");
  EXPECT_EQ(rig.get("/health").status, 200) << "ending is no illness";
  EXPECT_THAT(rig.get("/metrics").body, HasSubstr("inkstone_requests_waiting 1"));
  const HttpReply refused = rig.post("/v1/chat/completions", chat_body());
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  HttpClient silent(rig.port());  // does not hold the end up
  rig.engine().hold(false);
  EXPECT_EQ(waiting.read().status, 200);
  EXPECT_TRUE(silent.closed_within(10s));
}

TEST(HttpServer, IsIllBehindAFaultOfTheDevice) {
  ServerRig rig;
  EXPECT_EQ(rig.get("/health").status, 200);
  EXPECT_EQ(rig.get("/ready").status, 200);
  EXPECT_THAT(rig.get("/metrics").body, HasSubstr("inkstone_engine_failed 0"));
  rig.engine().fail_after(1);
  EXPECT_EQ(rig.post("/v1/chat/completions", chat_body()).status, 500);
  for (const char* path : {"/health", "/ready"}) {
    const HttpReply reply = rig.get(path);
    EXPECT_EQ(reply.status, 503) << path;
    EXPECT_EQ(reply.json()["error"]["code"], "engine_failed") << path;
  }
  EXPECT_THAT(rig.get("/metrics").body, HasSubstr("inkstone_engine_failed 1"));
}

TEST(HttpServer, DisconnectsWhatDoesNotEndInTimeWhenItIsToldToStop) {
  auto rig = std::make_unique<ServerRig>(with_limits({.drain = 200ms}));
  rig->engine().set_script([](const auto&) { return ServerRig::ids("<|content_text|> on"); });
  rig->engine().set_step_time(1ms);
  HttpClient client(rig->port());
  ASSERT_TRUE(client.send(
      post_text("/v1/chat/completions", chat_body({{"stream", true}, {"max_tokens", 1000000}}).dump())));
  ASSERT_TRUE(client.wait_for(" on"));
  rig->server().drain();
  EXPECT_TRUE(client.closed_within(10s));
  EXPECT_TRUE(eventually([&] { return rig->engine().cancelled() == 1; }));
}

TEST(HttpServer, RefusesMoreAnswersThanItsQueueHolds) {
  server::ApiServerOptions options;
  options.limits.max_answers = 2;
  ServerRig rig(options);
  rig.engine().hold(true);
  HttpClient first(rig.port());
  ASSERT_TRUE(first.send(post_text("/v1/chat/completions", chat_body({{"n", 2}}).dump())));
  ASSERT_TRUE(eventually([&] { return rig.engine().stats().waiting == 2; }));
  const HttpReply refused = rig.post("/v1/chat/completions", chat_body());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(refused.json()["error"]["type"], "rate_limit_error");
  rig.engine().hold(false);
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(rig.post("/v1/chat/completions", chat_body({{"n", 2}})).status, 200)
      << "the places are free again";
  EXPECT_EQ(rig.post("/v1/chat/completions", chat_body({{"n", 3}})).json()["error"]["param"], "n");
}

TEST(Router, WantsAKeyEverywhereButForHealth) {
  server::ApiServerOptions options;
  options.access.api_keys = {"secret", "other-key"};
  ServerRig rig(options);
  EXPECT_EQ(rig.get("/health").status, 200);
  EXPECT_EQ(rig.get("/health").body, "");
  const HttpReply refused = rig.get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.json()["error"]["code"], "invalid_api_key");
  for (const char* wrong : {"secre", "secret1", "Secret", "", "secretsecret", "other-ke"})
    EXPECT_EQ(rig.get("/v1/models", std::string("authorization: Bearer ") + wrong + "\r\n").status, 401)
        << wrong;
  EXPECT_EQ(rig.get("/v1/models", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(rig.get("/v1/models", "x-api-key: other-key\r\n").status, 200);
}

TEST(Router, RefusesPagesOfOtherSitesUnlessAllowed) {
  ServerRig closed;
  EXPECT_EQ(closed.get("/v1/models", "origin: http://evil.example\r\n").status, 403);
  const HttpReply own = closed.get("/v1/models", "origin: http://x\r\n");
  EXPECT_EQ(own.status, 200);
  EXPECT_FALSE(own.headers.contains("access-control-allow-origin"));

  server::ApiServerOptions options;
  options.access.allowed_origins = {"http://app.example"};
  ServerRig open(options);
  const HttpReply allowed = open.get("/v1/models", "origin: http://app.example\r\n");
  EXPECT_EQ(allowed.headers.at("access-control-allow-origin"), "http://app.example");
  EXPECT_EQ(open.get("/v1/models", "origin: http://evil.example\r\n").status, 403);
  HttpClient client(open.port());
  client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nhost: x\r\norigin: http://app.example\r\n\r\n");
  const HttpReply preflight = client.read();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_THAT(preflight.headers.at("access-control-allow-headers"), HasSubstr("authorization"));
}

TEST(Router, GivesBackTheRequestIdOrMakesOne) {
  ServerRig rig;
  EXPECT_EQ(rig.get("/version", "x-request-id: my-id.1\r\n").headers.at("x-request-id"), "my-id.1");
  EXPECT_THAT(rig.get("/version", "x-request-id: a b\"\r\n").headers.at("x-request-id"),
              testing::StartsWith("req_"));
}

TEST(Metrics, CountRequestsTokensAndWhatIsInProgress) {
  ServerRig rig;
  ASSERT_EQ(rig.post("/v1/chat/completions", chat_body()).status, 200);
  rig.engine().hold(true);
  HttpClient waiting(rig.port());
  ASSERT_TRUE(waiting.send(post_text("/v1/chat/completions", chat_body().dump())));
  ASSERT_TRUE(eventually([&] { return rig.engine().stats().waiting == 1; }));
  std::string text = rig.get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("inkstone_requests_waiting 1"));
  EXPECT_THAT(text,
              HasSubstr(R"(inkstone_http_requests_total{endpoint="/v1/chat/completions",status="200"} 1)"));
  EXPECT_THAT(text, HasSubstr("inkstone_time_to_first_token_seconds_count 1"));
  EXPECT_THAT(text, HasSubstr(R"(inkstone_answers_total{reason="stop"} 1)"));
  rig.engine().hold(false);
  EXPECT_EQ(waiting.read().status, 200);
  ASSERT_TRUE(eventually([&] { return rig.engine().stats().running == 0; }));
  text = rig.get("/metrics").body;
  EXPECT_THAT(text, HasSubstr("inkstone_requests_running 0"));
  EXPECT_THAT(text, HasSubstr("inkstone_requests_waiting 0"));
}

// The names of our metrics in an expression of the dashboard.
std::vector<std::string> metric_names(const std::string& expression) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; (begin = expression.find("inkstone_", begin)) != std::string::npos;) {
    const std::size_t end = expression.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin);
    names.push_back(expression.substr(begin, end - begin));
    begin += names.back().size();
  }
  return names;
}

// Names in the expressions of the dashboard that the server does not give show nothing, silently.
TEST(Metrics, TheDashboardAsksForNothingElse) {
  ServerRig rig;
  ASSERT_EQ(rig.post("/v1/chat/completions", chat_body()).status, 200);
  const std::string text = rig.get("/metrics").body;
  std::ifstream file(INKSTONE_SOURCE_DIR "/examples/grafana/inkstone.json");
  const nlohmann::json dashboard = nlohmann::json::parse(file);
  int found = 0;
  for (const nlohmann::json& panel : dashboard["panels"]) {
    for (const nlohmann::json& target : panel.value("targets", nlohmann::json::array())) {
      const std::string expression = target["expr"];
      for (const std::string& name : metric_names(expression)) {
        ++found;
        EXPECT_THAT(text, testing::ContainsRegex("\n" + name + "[ {]")) << expression;
      }
    }
  }
  EXPECT_GT(found, 10);
}

TEST(Metrics, CountDraftsByTheirDepth) {
  server::Metrics metrics([] { return engine::EngineStats{}; });
  engine::Outcome outcome;
  outcome.speculation.drafted = 5;
  outcome.speculation.accepted = 3;
  outcome.speculation.drafted_at = {2, 2, 1};
  outcome.speculation.accepted_at = {2, 1};
  metrics.answer_ended(outcome);
  metrics.answer_ended(outcome);
  const std::string text = metrics.text();
  for (const char* line :
       {"inkstone_draft_tokens_total 10", "inkstone_accepted_tokens_total 6",
        "inkstone_draft_acceptance_rate 0.6", R"(inkstone_draft_tokens_by_depth_total{depth="3"} 2)",
        R"(inkstone_accepted_tokens_by_depth_total{depth="1"} 4)",
        R"(inkstone_accepted_tokens_by_depth_total{depth="2"} 2)",
        R"(inkstone_accepted_tokens_by_depth_total{depth="3"} 0)"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace inkstone::test_support
