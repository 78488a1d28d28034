// SPDX-License-Identifier: Apache-2.0
#include "server/sse_writer.h"

namespace inkstone::server {

// The JSON holds no line break: strings have theirs escaped.
void SseWriter::data(std::string_view json) {
  exchange_.write("data: ");
  exchange_.write(json);
  exchange_.write("\n\n");
}

void SseWriter::event(std::string_view name, std::string_view json) {
  exchange_.write("event: ");
  exchange_.write(name);
  exchange_.write("\n");
  data(json);
}

void SseWriter::done() { data("[DONE]"); }

}  // namespace inkstone::server
