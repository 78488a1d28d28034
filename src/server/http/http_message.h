// SPDX-License-Identifier: Apache-2.0
// server/http/http_message.h - a request and a whole response, as endpoints see them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace inkstone::server {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;     // without the query
  HttpHeaders headers;  // names in lower case
  std::string body;
  std::string id;  // the client's x-request-id where it is sound, else one of ours

  // The first header of this name (lower case).
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
  HttpHeaders headers{};  // beside those that every response has
};

std::string_view status_text(int status);

}  // namespace inkstone::server
