// SPDX-License-Identifier: Apache-2.0
#include "server/api_server.h"

#include <utility>

#include "server/answer/chat_turns.h"

namespace inkstone::server {

Result<std::unique_ptr<ApiServer>> ApiServer::create(const ApiServerOptions& options, ServedModel model) {
  std::unique_ptr<HttpServer> http = INK_TRY(HttpServer::listen(options.http));
  return std::unique_ptr<ApiServer>(new ApiServer(options, std::move(model), std::move(http)));
}

ApiServer::ApiServer(const ApiServerOptions& options, ServedModel model, std::unique_ptr<HttpServer> http)
    : model_(std::move(model)),
      http_(std::move(http)),
      metrics_(model_.stats),
      grammars_(*model_.tokenizer, model_.tokens),
      workers_(http_->loop(), options.num_workers),
      media_workers_(http_->loop(), options.num_media_workers),
      fetchers_(http_->loop(), options.num_fetchers),
      service_{.model = model_,
               .workers = workers_,
               .media_workers = media_workers_,
               .fetchers = fetchers_,
               .loop = http_->loop(),
               .metrics = metrics_,
               .grammars = grammars_,
               .limits = options.limits,
               .version = options.version,
               .started_unix_s = unix_seconds(),
               .num_answers = 0,
               .stopping = [http = http_.get()] { return http->draining(); }},
      router_(service_, options.access) {
  http_->serve([this](Exchange& exchange) { return router_.handle(exchange); },
               [this](const HttpRequest& request) { return router_.admit(request); });
}

ApiServer::~ApiServer() = default;

std::uint16_t ApiServer::port() const { return http_->port(); }
void ApiServer::run() { http_->run(); }
void ApiServer::drain() { http_->drain(); }

}  // namespace inkstone::server
