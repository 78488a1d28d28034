// SPDX-License-Identifier: Apache-2.0
// server/wire/json_writer.h - JSON text of responses, written front to back into a string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace inkstone::server {

// Commas come by themselves. What is opened must be closed by the caller.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& open_object();
  JsonWriter& close_object();
  JsonWriter& open_array();
  JsonWriter& close_array();
  JsonWriter& key(std::string_view name);

  JsonWriter& string(std::string_view text);  // valid UTF-8
  JsonWriter& integer(std::int64_t value);
  JsonWriter& number(double value);  // not finite: null
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);

 private:
  void separate();
  std::string& out_;
};

}  // namespace inkstone::server
