// SPDX-License-Identifier: Apache-2.0
#include "server/wire/json_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "chat/json_value.h"

namespace inkstone::server {

// A value follows another one exactly when the text does not end with an opening or a separator.
void JsonWriter::separate() {
  if (out_.empty()) return;
  const char last = out_.back();
  if (last != '{' && last != '[' && last != ':' && last != ',') out_ += ',';
}

JsonWriter& JsonWriter::open_object() {
  separate();
  out_ += '{';
  return *this;
}

JsonWriter& JsonWriter::close_object() {
  out_ += '}';
  return *this;
}

JsonWriter& JsonWriter::open_array() {
  separate();
  out_ += '[';
  return *this;
}

JsonWriter& JsonWriter::close_array() {
  out_ += ']';
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  string(name);
  out_ += ':';
  return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
  separate();
  chat::append_json_string(text, out_);
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t value) {
  separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::number(double value) {
  if (!std::isfinite(value)) return null();
  separate();
  fmt::format_to(std::back_inserter(out_), "{}", value);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) { return raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace inkstone::server
