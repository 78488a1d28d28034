// SPDX-License-Identifier: Apache-2.0
// server/api_server.h - the whole server: HTTP, workers, endpoints. What app creates and runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http_server.h"
#include "server/router.h"
#include "server/service.h"

namespace inkstone::server {

struct ApiServerOptions {
  HttpServerOptions http;
  AccessRules access;
  ServiceLimits limits;
  int num_workers = 2;
  int num_media_workers = 2;
  int num_fetchers = 8;
  std::string version;
};

class ApiServer {
 public:
  // Binds and listens. `model` is complete; what it points to outlives the server.
  static Result<std::unique_ptr<ApiServer>> create(const ApiServerOptions& options, ServedModel model);
  ~ApiServer();

  [[nodiscard]] std::uint16_t port() const;
  // Serves on the calling thread until a drain has ended (HttpServer::run).
  void run();
  // Any thread.
  void drain();

 private:
  ApiServer(const ApiServerOptions& options, ServedModel model, std::unique_ptr<HttpServer> http);

  ServedModel model_;
  std::unique_ptr<HttpServer> http_;
  Metrics metrics_;
  AnswerGrammars grammars_;
  Workers workers_;
  Workers media_workers_;
  Workers fetchers_;
  Service service_;
  Router router_;
};

}  // namespace inkstone::server
