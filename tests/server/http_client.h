// SPDX-License-Identifier: Apache-2.0
// tests/server/http_client.h - a plain blocking client on sockets, which can also do what no library would:
// send half a request, read nothing, leave.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace inkstone::test_support {

struct HttpReply {
  int status = 0;  // 0: the connection ended without a response
  std::map<std::string, std::string> headers;
  std::string body;  // chunks joined
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
  // The payloads of a server-sent event stream.
  [[nodiscard]] std::vector<std::string> events() const;
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, int receive_buffer_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool send(std::string_view bytes) const;  // false: the server has closed
  // Reads one response. Gives what there is after `limit`.
  HttpReply read(std::chrono::milliseconds limit = std::chrono::seconds(20));
  // Whether the server closes the connection, unread bytes notwithstanding.
  bool closed_within(std::chrono::milliseconds limit);
  bool wait_for(std::string_view text, std::chrono::milliseconds limit = std::chrono::seconds(20));

 private:
  bool receive(std::chrono::steady_clock::time_point end);
  int socket_;
  std::string input_;
  bool ended_ = false;
};

std::string get_text(std::string_view path, std::string_view headers = "");
std::string post_text(std::string_view path, std::string_view body, std::string_view headers = "");

}  // namespace inkstone::test_support
