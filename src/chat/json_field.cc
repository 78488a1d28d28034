// SPDX-License-Identifier: Apache-2.0
#include "chat/json_field.h"

#include <fmt/format.h>

namespace inkstone::chat {

using Kind = JsonValue::Kind;

Field Field::operator[](std::string_view key) const {
  const JsonValue* child = value_ == nullptr ? nullptr : value_->find(key);
  return Field(child, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

Result<bool> Field::boolean(bool fallback) const {
  if (!present()) return fallback;
  if (!is(Kind::kBool)) return refuse("must be true or false");
  return value_->boolean;
}

Result<std::string> Field::string(std::string_view fallback) const {
  if (!present()) return std::string(fallback);
  if (!is_string()) return refuse("must be a string");
  return value_->text;
}

Result<std::vector<Field>> Field::array() const {
  std::vector<Field> items;
  if (!present()) return items;
  if (!is_array()) return refuse("must be an array");
  for (std::size_t idx = 0; idx < value_->items.size(); ++idx) {
    items.emplace_back(&value_->items[idx], fmt::format("{}[{}]", path_, idx));
  }
  return items;
}

Status Field::require_object() const {
  if (!is_object()) return refuse("must be an object");
  return {};
}

tl::unexpected<Error> Field::refuse(std::string_view what) const {
  return invalid(fmt::format("{}: {}", path_.empty() ? "request" : path_, what));
}

}  // namespace inkstone::chat
