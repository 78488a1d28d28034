// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/log.h"
#include "server/endpoints.h"
#include "server/wire/api_error.h"
#include "server/wire/json_writer.h"

namespace inkstone::server {
namespace {

struct Route {
  std::string_view method;
  std::string_view path;
  Task<> (*endpoint)(Service&, Exchange&);
  bool open = false;   // without a key
  bool quiet = false;  // asked every few seconds: no log line
};

constexpr auto kRoutes = std::to_array<Route>({
    {"POST", "/v1/chat/completions", chat_completions},
    {"POST", "/v1/completions", completions},
    {"POST", "/v1/responses", responses},
    {"POST", "/v1/messages", messages},
    {"POST", "/v1/messages/count_tokens", count_message_tokens},
    {"GET", "/v1/models", list_models},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/render", render},
    {"GET", "/", page, true},
    {"GET", "/ready", ready, true, true},
    {"GET", "/version", version, true},
    {"GET", "/metrics", metrics_text, true, true},
    {"GET", "/health", health, true, true},
});

const Route* find_route(const HttpRequest& request) {
  const std::string_view method = request.method == "HEAD" ? "GET" : std::string_view(request.method);
  const auto* found = std::ranges::find_if(
      kRoutes, [&](const Route& route) { return route.path == request.path && route.method == method; });
  return found == kRoutes.end() ? nullptr : found;
}

HttpResponse refuse(const HttpRequest& request, const ApiError& error) {
  const bool anthropic = request.path.starts_with("/v1/messages");
  return anthropic ? anthropic_error(error) : openai_error(error);
}

HttpResponse no_route(const HttpRequest& request) {
  std::string allowed;
  for (const Route& route : kRoutes)
    if (route.path == request.path) allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
  if (allowed.empty())
    return refuse(request, {404, fmt::format("there is nothing at this path"), "", "not_found"});
  HttpResponse response =
      refuse(request, {405, fmt::format("this path takes {}", allowed), "", "method_not_allowed"});
  response.headers.emplace_back("allow", allowed);
  return response;
}

// Takes as long for a wrong key as for the right one, wherever they differ.
bool same_key(std::string_view given, std::string_view key) {
  std::size_t difference = given.size() ^ key.size();
  for (std::size_t idx = 0; idx < given.size(); ++idx)
    difference |= static_cast<unsigned char>(given[idx]) ^ static_cast<unsigned char>(key[idx % key.size()]);
  return difference == 0;
}

std::string_view key_of(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view header = request.header("authorization").value_or("");
  const auto same_letter = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (header.size() > kScheme.size() &&
      std::ranges::equal(header.substr(0, kScheme.size()), kScheme, same_letter))
    return header.substr(kScheme.size());
  return request.header("x-api-key").value_or("");
}

bool is_own_origin(const HttpRequest& request, std::string_view origin) {
  const std::string_view host = request.header("host").value_or("");
  return !host.empty() &&
         (origin == fmt::format("http://{}", host) || origin == fmt::format("https://{}", host));
}

void log_request(const HttpRequest& request, int status, double seconds) {
  std::string line;
  JsonWriter json(line);
  json.open_object().key("event").string("request").key("id").string(request.id);
  json.key("method").string(request.method).key("path").string(request.path);
  json.key("status").integer(status).key("seconds").number(seconds).close_object();
  log::info(line);
}

}  // namespace

std::optional<HttpResponse> Router::admit(const HttpRequest& request) const {
  std::optional<HttpResponse> answer;
  const Route* route = find_route(request);
  if (!origin_allowed(request)) {
    answer = refuse(request,
                    {403, "requests from pages of this origin are not allowed", "", "origin_not_allowed"});
  } else if (request.method == "OPTIONS") {
    answer = HttpResponse{204, "", "", {}};
  } else if (route == nullptr) {
    answer = no_route(request);
  } else if (!route->open && !knows_key(request)) {
    answer = refuse(request, {401, "the API key is missing or wrong", "", "invalid_api_key"});
    answer->headers.emplace_back("www-authenticate", "Bearer");
  } else if (service_.stopping() && !route->open) {
    answer = refuse(request, {503, "the server is shutting down", "", "shutting_down"});
  }
  if (!answer) return answer;
  add_cors(request, *answer);
  service_.metrics.request_answered(route == nullptr ? "other" : route->path, answer->status, 0);
  log_request(request, answer->status, 0);
  return answer;
}

Task<> Router::handle(Exchange& exchange) {
  const auto begin = std::chrono::steady_clock::now();
  const Route& route = *find_route(exchange.request());
  HttpResponse headers;
  add_cors(exchange.request(), headers);
  for (auto& [name, value] : headers.headers) exchange.add_header(name, value);
  co_await route.endpoint(service_, exchange);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  constexpr int kClientLeft = 499;
  const int status = exchange.gone() ? kClientLeft : exchange.status();
  service_.metrics.request_answered(route.path, status, seconds);
  if (!route.quiet) log_request(exchange.request(), status, seconds);
}

// Browsers name the site that a request comes from. Without this rule any site could use a server that only
// listens on loopback.
bool Router::origin_allowed(const HttpRequest& request) const {
  const auto origin = request.header("origin");
  if (!origin || is_own_origin(request, *origin)) return true;
  return std::ranges::any_of(rules_.allowed_origins, [&](const std::string& allowed) {
    return allowed == "*" || allowed == *origin;
  });
}

bool Router::knows_key(const HttpRequest& request) const {
  if (rules_.api_keys.empty()) return true;
  const std::string_view given = key_of(request);
  bool known = false;
  for (const std::string& key : rules_.api_keys) known |= same_key(given, key);
  return known;
}

void Router::add_cors(const HttpRequest& request, HttpResponse& response) const {
  const auto origin = request.header("origin");
  if (!origin || rules_.allowed_origins.empty() || !origin_allowed(request)) return;
  response.headers.emplace_back("access-control-allow-origin", std::string(*origin));
  response.headers.emplace_back("vary", "origin");
  if (request.method != "OPTIONS") return;
  response.headers.emplace_back("access-control-allow-methods", "GET, POST");
  response.headers.emplace_back("access-control-allow-headers",
                                "authorization, content-type, x-api-key, x-request-id");
}

}  // namespace inkstone::server
