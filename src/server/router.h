// SPDX-License-Identifier: Apache-2.0
// server/router.h - which path leads to which endpoint, and what holds for all of them: keys, origins, log
// lines, counts.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/exchange.h"
#include "server/service.h"

namespace inkstone::server {

struct AccessRules {
  std::vector<std::string> api_keys;  // empty: everyone; else wanted on everything below /v1/ and the tools
  std::vector<std::string> allowed_origins;  // pages of other sites that may call; "*": all
};

// Used by the I/O thread. The service outlives it.
class Router {
 public:
  Router(Service& service, AccessRules rules) : service_(service), rules_(std::move(rules)) {}

  // Judges the header of a request: a response, when it gets no further.
  [[nodiscard]] std::optional<HttpResponse> admit(const HttpRequest& request) const;
  // Answers an admitted request.
  Task<> handle(Exchange& exchange);

 private:
  [[nodiscard]] bool origin_allowed(const HttpRequest& request) const;
  [[nodiscard]] bool knows_key(const HttpRequest& request) const;
  void add_cors(const HttpRequest& request, HttpResponse& response) const;

  Service& service_;
  AccessRules rules_;
};

}  // namespace inkstone::server
