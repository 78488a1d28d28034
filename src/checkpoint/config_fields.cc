// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/config_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace inkstone::checkpoint {
namespace {

using nlohmann::json;

// Values are quoted in messages; a hostile one should not fill the screen.
std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

std::optional<std::int64_t> whole(const json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX) return value.get<std::int64_t>();
  if (value.is_number_integer() && !value.is_number_unsigned()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (number != std::floor(number) || std::abs(number) > 1e15) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

const json* ConfigFields::find(Names names) {
  const json* found = nullptr;
  const char* found_name = nullptr;
  for (const char* name : names) {
    known_.insert(name);
    const auto entry = object_.find(name);
    if (entry == object_.end() || entry->is_null()) continue;
    if (found != nullptr && *found != *entry)
      faults_.note(ErrorKind::kInvalidArgument, fmt::format("{} is {} but {} is {}", path(found_name),
                                                            shown(*found), path(name), shown(*entry)));
    if (found == nullptr) {
      found = &*entry;
      found_name = name;
    }
  }
  return found;
}

bool ConfigFields::has(const char* key) { return find({key}) != nullptr; }

std::optional<std::int64_t> ConfigFields::integer(Names names, std::int64_t least) {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  const auto number = whole(*value);
  if (number && *number >= least && *number <= kMaxSize) return number;
  faults_.note(ErrorKind::kInvalidArgument,
               fmt::format("{} must be a whole number from {} to {}, is {}", path(*names.begin()), least,
                           kMaxSize, shown(*value)));
  return least;
}

std::int64_t ConfigFields::required(Names names, std::int64_t least) {
  const auto value = integer(names, least);
  if (!value) faults_.note(ErrorKind::kInvalidArgument, fmt::format("{} is missing", path(*names.begin())));
  return value.value_or(least);
}

std::int64_t ConfigFields::size(Names names) { return required(names, 1); }
std::int64_t ConfigFields::count(Names names) { return required(names, 0); }
std::int64_t ConfigFields::size_or(Names names, std::int64_t otherwise) {
  return integer(names, 1).value_or(otherwise);
}

double ConfigFields::number(Names names) {
  const json* value = find(names);
  if (value != nullptr && value->is_number() && std::isfinite(value->get<double>()))
    return value->get<double>();
  faults_.note(ErrorKind::kInvalidArgument,
               value == nullptr
                   ? fmt::format("{} is missing", path(*names.begin()))
                   : fmt::format("{} must be a number, is {}", path(*names.begin()), shown(*value)));
  return 1;
}

double ConfigFields::positive(Names names) {
  const double value = number(names);
  if (value > 0) return value;
  faults_.note(ErrorKind::kInvalidArgument,
               fmt::format("{} must be greater than 0, is {}", path(*names.begin()), value));
  return 1;
}

bool ConfigFields::flag(Names names, bool otherwise) {
  const json* value = find(names);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  faults_.note(ErrorKind::kInvalidArgument,
               fmt::format("{} must be true or false, is {}", path(*names.begin()), shown(*value)));
  return otherwise;
}

std::optional<std::int64_t> ConfigFields::id(const char* key) { return integer({key}, 0); }

std::optional<std::vector<std::int64_t>> ConfigFields::ids(Names names, std::int64_t below) {
  const json* value = find(names);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> result;
  const auto refuse = [&](const json& part) {
    faults_.note(ErrorKind::kInvalidArgument,
                 fmt::format("{} must list whole numbers from 0 to {}, each once; it holds {}",
                             path(*names.begin()), below - 1, shown(part)));
  };
  if (!value->is_array()) {
    refuse(*value);
    return result;
  }
  std::set<std::int64_t> seen;
  for (const json& part : *value) {
    const auto number = whole(part);
    if (!number || *number < 0 || *number >= below || !seen.insert(*number).second) {
      refuse(part);
      return result;
    }
    result.push_back(*number);
  }
  return result;
}

void ConfigFields::require(const char* key, const json& only) {
  const json* value = find({key});
  if (value == nullptr || *value == only) return;
  faults_.note(ErrorKind::kUnsupported,
               fmt::format("{} is {}; only {} is supported", path(key), shown(*value), shown(only)));
}

void ConfigFields::ignore(Names names) {
  for (const char* name : names) known_.insert(name);
}

std::vector<std::string> ConfigFields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_.items())
    if (!known_.contains(key)) names.push_back(path_ + key);
  return names;
}

}  // namespace inkstone::checkpoint
