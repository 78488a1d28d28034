// SPDX-License-Identifier: Apache-2.0
#include "app/eval/eval_server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace inkstone::app {
namespace {

TEST(ServerUrl, IsHostPortAndPrefix) {
  const auto plain = parse_server_url("http://localhost:8000/");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->host, "localhost");
  EXPECT_EQ(plain->port, "8000");
  EXPECT_EQ(plain->prefix, "");
  const auto v6 = parse_server_url("http://[::1]:81/a/v1");
  ASSERT_TRUE(v6.has_value());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, "81");
  EXPECT_EQ(v6->prefix, "/a/v1");
  EXPECT_EQ(parse_server_url("http://[::1]")->port, "80");
}

TEST(ServerUrl, RefusesWhatItCannotCall) {
  EXPECT_EQ(parse_server_url("https://x").error().kind, ErrorKind::kUnsupported);
  for (const char* bad : {"", "x:80", "ftp://x", "http://", "http://:80", "http://x:port", "http://x:70000",
                          "http://a b", "http://u@x", "http://x/\r\nHost: y"})
    EXPECT_FALSE(parse_server_url(bad).has_value()) << bad;
}

TEST(HttpReply, IsReadByLengthByChunksOrToTheEnd) {
  EXPECT_EQ(parse_http_reply("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd")->body, "abc");
  EXPECT_EQ(
      parse_http_reply(
          "HTTP/1.1 200 OK\r\ntransfer-ENCODING: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n")
          ->body,
      "abc0123456789");
  const auto rest = parse_http_reply("HTTP/1.0 404 Not Found\r\n\r\nno");
  ASSERT_TRUE(rest.has_value());
  EXPECT_EQ(rest->status, 404);
  EXPECT_EQ(rest->body, "no");
}

TEST(HttpReply, IsRefusedWhenItStopsEarly) {
  for (const char* bad :
       {"", "HTTP/1.1 200 OK\r\n", "SMTP\r\n\r\n", "HTTP/1.1 x\r\n\r\n", "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Length: z\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc"})
    EXPECT_FALSE(parse_http_reply(bad).has_value()) << bad;
}

TEST(ServerRequest, CarriesItsMediaAndAsksGreedily) {
  eval::Item item;
  item.request = R"({"messages": [{"role": "user", "content": [
    {"type": "image_url", "image_url": {"url": "images/26.png"}},
    {"type": "input_audio", "input_audio": {"file": "sounds/11.wav", "format": "wav"}},
    {"type": "text", "text": "?"}]}]})";
  const auto text = server_request(item, INKSTONE_SOURCE_DIR "/tests/data/evals", {{}, "mini", ""}, 150);
  ASSERT_TRUE(text.has_value()) << text.error().message;
  const auto request = nlohmann::json::parse(*text);
  EXPECT_EQ(request["model"], "mini");
  EXPECT_EQ(request["temperature"], 0);
  EXPECT_EQ(request["max_tokens"], 150);
  const auto& content = request["messages"][0]["content"];
  EXPECT_EQ(content[0]["image_url"]["url"].get<std::string>().substr(0, 26), "data:image/png;base64,iVBO");
  EXPECT_EQ(content[1]["input_audio"]["data"].get<std::string>().substr(0, 4), "UklG");
  EXPECT_FALSE(content[1]["input_audio"].contains("file"));
  EXPECT_FALSE(server_request(item, "/nowhere", {{}, "mini", ""}, 150).has_value());
}

TEST(ServerAnswer, IsReadAsAnswersAreCompared) {
  const auto answer = read_server_answer(R"({"choices": [{"message": {"role": "assistant", "content": null,
    "reasoning_content": "Hm.", "tool_calls": [{"id": "c", "type": "function",
    "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": 2}"}}]}}], "usage": {"prompt_tokens": 9}})");
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->content, "");
  EXPECT_EQ(answer->reasoning, "Hm.");
  ASSERT_EQ(answer->calls.size(), 1U);
  EXPECT_EQ(answer->calls[0].arguments, R"({"a":2,"b":1})");
  EXPECT_EQ(answer->prompt_tokens, 9);
  EXPECT_FALSE(read_server_answer("{}").has_value());
  EXPECT_FALSE(read_server_answer("<html>").has_value());
}

TEST(Server, ThatIsNotThereIsNamed) {
  // Port 1 is reserved; nothing listens there.
  const auto server = find_server("http://127.0.0.1:1", "");
  ASSERT_FALSE(server.has_value());
  EXPECT_NE(server.error().message.find("127.0.0.1:1"), std::string::npos);
}

}  // namespace
}  // namespace inkstone::app
