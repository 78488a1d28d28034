// SPDX-License-Identifier: Apache-2.0
// GET /v1/models, /health, /ready, /version, /metrics and the page at /: what needs no engine to answer.
#include <fmt/format.h>

#include "server/endpoints.h"
#include "server/page.h"
#include "server/wire/api_error.h"
#include "server/wire/json_writer.h"

namespace inkstone::server {

Task<> list_models(Service& service, Exchange& exchange) {
  HttpResponse response;
  JsonWriter json(response.body);
  json.open_object().key("object").string("list").key("data").open_array();
  for (const std::string& name : service.model.names) {
    json.open_object().key("id").string(name).key("object").string("model");
    json.key("created").integer(service.started_unix_s).key("owned_by").string("inkstone");
    json.key("max_model_len").integer(service.model.max_context_tokens).close_object();
  }
  json.close_array().close_object();
  exchange.respond(std::move(response));
  co_return;
}

namespace {

HttpResponse engine_failed() {
  return openai_error({503, "the device failed; the server has to be started again", "", "engine_failed"});
}

}  // namespace

Task<> health(Service& service, Exchange& exchange) {
  if (service.model.stats().failed) {
    exchange.respond(engine_failed());
  } else {
    exchange.respond({200, "text/plain", "", {}});
  }
  co_return;
}

Task<> ready(Service& service, Exchange& exchange) {
  if (service.model.stats().failed) {
    exchange.respond(engine_failed());
  } else if (service.stopping()) {
    exchange.respond(openai_error({503, "the server is shutting down", "", "shutting_down"}));
  } else {
    exchange.respond({200, "application/json", R"({"status":"ready"})", {}});
  }
  co_return;
}

Task<> version(Service& service, Exchange& exchange) {
  HttpResponse response;
  JsonWriter(response.body).open_object().key("version").string(service.version).close_object();
  exchange.respond(std::move(response));
  co_return;
}

Task<> metrics_text(Service& service, Exchange& exchange) {
  exchange.respond({200, "text/plain; version=0.0.4; charset=utf-8", service.metrics.text(), {}});
  co_return;
}

// The page needs nothing from elsewhere; the policy makes sure that it gets nothing either.
Task<> page(Service& /*service*/, Exchange& exchange) {
  HttpResponse response{200, "text/html; charset=utf-8", std::string(page_html()), {}};
  response.headers.emplace_back("content-security-policy",
                                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                "connect-src 'self'; img-src 'self' data: blob:; media-src data: blob:");
  response.headers.emplace_back("x-content-type-options", "nosniff");
  response.headers.emplace_back("x-frame-options", "DENY");
  exchange.respond(std::move(response));
  co_return;
}

}  // namespace inkstone::server
