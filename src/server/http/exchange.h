// SPDX-License-Identifier: Apache-2.0
// server/http/exchange.h - one request and the way of its response, as a handler sees them.
#pragma once

#include <functional>
#include <string_view>

#include "server/http/http_message.h"
#include "server/http/task.h"

namespace inkstone::server {

// I/O thread only; lives until the handler has returned. Nothing here blocks or waits: what a slow client has
// not taken is kept up to a limit, then the client is dropped.
class Exchange {
 public:
  virtual ~Exchange() = default;

  [[nodiscard]] virtual HttpRequest& request() = 0;

  // A header of the response to come.
  virtual void add_header(std::string name, std::string value) = 0;

  // Either one whole response ...
  virtual void respond(HttpResponse response) = 0;
  // ... or a stream that ends when the handler returns. What is written leaves at the next flush.
  virtual void begin_stream(std::string_view content_type) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void flush() = 0;

  // The client has closed the connection or was dropped; `callback` is called once, when that happens. A
  // request has at most one callback at a time; an empty one takes it back.
  [[nodiscard]] virtual bool gone() const = 0;
  virtual void when_gone(std::function<void()> callback) = 0;

  [[nodiscard]] virtual int status() const = 0;  // 0 before a response
};

using HttpHandler = std::function<Task<>(Exchange&)>;

}  // namespace inkstone::server
