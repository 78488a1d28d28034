// SPDX-License-Identifier: Apache-2.0
// chat/json_field.h - a place in a client's JSON that knows its name, so that every error names the field at
// fault.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/json_value.h"

namespace inkstone::chat {

// Views into a JsonValue that must outlive it. An absent field and null read alike.
class Field {
 public:
  Field(const JsonValue* value, std::string path) : value_(value), path_(std::move(path)) {}

  [[nodiscard]] bool present() const { return value_ != nullptr && value_->kind != JsonValue::Kind::kNull; }
  [[nodiscard]] bool is(JsonValue::Kind kind) const { return value_ != nullptr && value_->kind == kind; }
  [[nodiscard]] bool is_string() const { return is(JsonValue::Kind::kString); }
  [[nodiscard]] bool is_object() const { return is(JsonValue::Kind::kObject); }
  [[nodiscard]] bool is_array() const { return is(JsonValue::Kind::kArray); }
  [[nodiscard]] const JsonValue& value() const { return *value_; }  // when present()
  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] Field operator[](std::string_view key) const;

  // The checked readings: an error when the field is present with another type. Absent: the fallback.
  [[nodiscard]] Result<bool> boolean(bool fallback) const;
  [[nodiscard]] Result<std::string> string(std::string_view fallback = "") const;
  [[nodiscard]] Result<std::vector<Field>> array() const;  // absent: no elements
  [[nodiscard]] Status require_object() const;             // absent is an error too

  // "path: what".
  [[nodiscard]] tl::unexpected<Error> refuse(std::string_view what) const;

 private:
  const JsonValue* value_;
  std::string path_;
};

}  // namespace inkstone::chat
