// SPDX-License-Identifier: Apache-2.0
// server/http_server.h - station 1 of docs/journey.md: bytes of connections to HttpRequest. Listens, bounds
// what clients may take, and ends gracefully. Knows nothing of what is served.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http/exchange.h"
#include "server/http/io_loop.h"

namespace inkstone::server {

struct HttpLimits {
  std::size_t header_bytes = 32 * 1024;
  std::size_t body_bytes = std::size_t{32} << 20;
  std::size_t unsent_bytes = std::size_t{1} << 20;  // of a stream that its client does not read
  std::size_t connections = 8192;
  std::chrono::milliseconds idle{75'000};    // between requests of a connection
  std::chrono::milliseconds header{10'000};  // from the first byte of a request
  std::chrono::milliseconds body{120'000};   // from the end of the header
  std::chrono::milliseconds send{30'000};    // without the client taking a byte
  std::chrono::milliseconds drain{30'000};   // for requests in progress when the server is told to stop
};

// PEM files; both or none.
struct TlsFiles {
  std::string certificate;  // and what leads to its root
  std::string key;
};

struct HttpServerOptions {
  std::string host =
      "127.0.0.1";            // an address, or "localhost"; others than loopback only if the user says so
  std::uint16_t port = 8000;  // 0: any free one
  TlsFiles tls;               // none: plain HTTP
  HttpLimits limits;
  bool stop_on_signals = true;  // SIGTERM and SIGINT begin the drain
};

class HttpServer {
 public:
  // Binds and listens; errors name the address, or the file of the certificate.
  static Result<std::unique_ptr<HttpServer>> listen(const HttpServerOptions& options);
  ~HttpServer();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] IoLoop& loop();

  // `handler` answers requests. `admit`, called when the header of a request is there and before its body is
  // read, may answer instead.
  using Admission = std::function<std::optional<HttpResponse>(const HttpRequest&)>;
  void serve(HttpHandler handler, Admission admit);

  // The calling thread becomes the I/O thread. Returns after a drain: everything in progress has ended, or
  // its time was over and its client was disconnected.
  void run();

  // Any thread: what is in progress ends. Until then connections are taken, so that whoever watches the
  // server learns of its end; `admit` decides what is still answered.
  void drain();
  [[nodiscard]] bool draining() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace inkstone::server
