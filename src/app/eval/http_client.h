// SPDX-License-Identifier: Apache-2.0
// app/eval/http_client.h - requests to a server over plain HTTP/1.1, one connection each: enough to ask a
// server that runs beside the program or behind a tunnel.
#pragma once

#include <string>

#include "base/result.h"

namespace inkstone::app {

struct ServerAddress {
  std::string host;
  std::string port = "80";
  std::string prefix;  // of every path; "" or "/v1" and the like
};

// "http://HOST[:PORT][/PREFIX]". kUnsupported for https.
Result<ServerAddress> parse_server_url(const std::string& url);

struct HttpReply {
  int status = 0;
  std::string body;
};

// Waits for the whole reply. `body` empty: GET. `api_key` may be empty. kIo: no connection, or a reply that
// stops early or is no HTTP.
Result<HttpReply> send_request(const ServerAddress& server, const std::string& path, const std::string& body,
                               const std::string& api_key);

// Of bytes up to the end of the connection.
Result<HttpReply> parse_http_reply(const std::string& bytes);

}  // namespace inkstone::app
