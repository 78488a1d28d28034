// SPDX-License-Identifier: Apache-2.0
// server/sse_writer.h - station 15 of docs/journey.md: events of an answer to bytes of a server-sent event
// stream.
#pragma once

#include <string_view>

#include "server/http/exchange.h"

namespace inkstone::server {

class SseWriter {
 public:
  explicit SseWriter(Exchange& exchange) : exchange_(exchange) {}

  void begin() { exchange_.begin_stream("text/event-stream; charset=utf-8"); }
  void data(std::string_view json);
  void event(std::string_view name, std::string_view json);
  void done();  // the end that OpenAI's clients wait for
  void flush() { exchange_.flush(); }

 private:
  Exchange& exchange_;
};

}  // namespace inkstone::server
