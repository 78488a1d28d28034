// SPDX-License-Identifier: Apache-2.0
// checkpoint/config_fields.h - typed reading of one object of `config.json`, remembering which keys are
// known.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace inkstone::checkpoint {

// The first fault wins; reading goes on with zeros, so that callers stay straight lines and ask once.
class ConfigFaults {
 public:
  void note(ErrorKind kind, std::string message) {
    if (!first_) first_ = Error{kind, "config.json: " + std::move(message)};
  }
  [[nodiscard]] Status status() const { return first_ ? Status(tl::unexpected(*first_)) : Status(); }
  [[nodiscard]] bool none() const { return !first_; }

 private:
  std::optional<Error> first_;
};

// `names` of a quantity are its native key and its aliases: equal when both are present. A null counts as
// absent.
class ConfigFields {
 public:
  using Names = std::initializer_list<const char*>;
  static constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;

  // `path` leads to the object, for messages: "text_config." or "".
  ConfigFields(const nlohmann::json& object, std::string path, ConfigFaults& faults)
      : object_(object), path_(std::move(path)), faults_(faults) {}

  [[nodiscard]] bool has(const char* key);
  // The object, array or value under a key that is present and not null; nullptr otherwise.
  const nlohmann::json* find(Names names);

  std::int64_t size(Names names);  // required, 1 <= size <= kMaxSize
  std::int64_t size_or(Names names, std::int64_t otherwise);
  std::int64_t count(Names names);  // required, 0 <= count <= kMaxSize
  double number(Names names);       // required, finite
  double positive(Names names);     // required, finite, > 0
  bool flag(Names names, bool otherwise);
  std::optional<std::int64_t> id(const char* key);  // a token id, >= 0
  std::optional<std::vector<std::int64_t>> ids(Names names, std::int64_t below);

  // A switch of which only one value exists: absent and null mean that value, anything else is an error.
  void require(const char* key, const nlohmann::json& only);
  // Known, but nothing here depends on it.
  void ignore(Names names);

  // Keys of the object that were never asked for, with their path.
  [[nodiscard]] std::vector<std::string> unknown() const;
  [[nodiscard]] std::string path(const char* key) const { return path_ + key; }

 private:
  std::optional<std::int64_t> integer(Names names, std::int64_t least);
  std::int64_t required(Names names, std::int64_t least);

  const nlohmann::json& object_;
  std::string path_;
  ConfigFaults& faults_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace inkstone::checkpoint
