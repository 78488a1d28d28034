// SPDX-License-Identifier: Apache-2.0
#include "server/wire/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/stop_strings.h"
#include "text/utf8.h"

namespace inkstone::server {
namespace {

using chat::Field;
using chat::JsonValue;
using Kind = JsonValue::Kind;

constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53: doubles tell all integers below apart

constexpr auto kNames = std::to_array<std::string_view>({"model",
                                                         "temperature",
                                                         "top_p",
                                                         "top_k",
                                                         "min_p",
                                                         "repetition_penalty",
                                                         "presence_penalty",
                                                         "frequency_penalty",
                                                         "seed",
                                                         "n",
                                                         "stop",
                                                         "stop_token_ids",
                                                         "include_stop_str_in_output",
                                                         "no_stop_trim",
                                                         "ignore_eos",
                                                         "min_tokens",
                                                         "logit_bias",
                                                         "stream",
                                                         "stream_options",
                                                         "cache_salt",
                                                         "priority",
                                                         "skip_special_tokens",
                                                         "spaces_between_special_tokens",
                                                         "user",
                                                         "metadata",
                                                         "store",
                                                         "service_tier"});

bool is_number(const Field& field) { return field.is(Kind::kInteger) || field.is(Kind::kFloat); }

template <class Int>
bool parse_whole(std::string_view text, Int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Any 64 bits, signed or not: clients draw seeds in both ways.
Result<std::optional<std::uint64_t>> read_seed(const Field& field) {
  if (!field.present()) return std::nullopt;
  std::uint64_t value = 0;
  std::int64_t negative = 0;
  if (field.is(Kind::kInteger)) {
    if (parse_whole(field.value().text, value)) return value;
    if (parse_whole(field.value().text, negative)) return static_cast<std::uint64_t>(negative);
  }
  return field.refuse("must be an integer of 64 bits");
}

Status read_bias(const Field& field, sampling::SamplingParams& params) {
  if (!field.present()) return {};
  INK_TRY(field.require_object());
  for (const chat::JsonMember& member : field.value().members) {
    std::int32_t id = 0;
    const Field entry(&member.value, "logit_bias");
    if (!parse_whole(member.key, id))
      return field.refuse(
          fmt::format("'{}' is no token id", text::replace_invalid_utf8(member.key.substr(0, 40))));
    if (!is_number(entry)) return entry.refuse(fmt::format("the bias of token {} must be a number", id));
    params.logit_bias.emplace_back(id, member.value.number);
  }
  return {};
}

Status read_sampling(const Field& body, sampling::SamplingParams& params) {
  params.temperature = INK_TRY(read_number(body["temperature"], params.temperature));
  params.top_p = INK_TRY(read_number(body["top_p"], params.top_p));
  params.top_k = INK_TRY(read_integer(body["top_k"], params.top_k));
  params.min_p = INK_TRY(read_number(body["min_p"], params.min_p));
  params.repetition_penalty = INK_TRY(read_number(body["repetition_penalty"], params.repetition_penalty));
  params.presence_penalty = INK_TRY(read_number(body["presence_penalty"], params.presence_penalty));
  params.frequency_penalty = INK_TRY(read_number(body["frequency_penalty"], params.frequency_penalty));
  params.seed = INK_TRY(read_seed(body["seed"]));
  params.min_tokens = INK_TRY(read_integer(body["min_tokens"], 0));
  params.ignore_eos = INK_TRY(body["ignore_eos"].boolean(false));
  params.stop_token_ids = INK_TRY(read_ids(body["stop_token_ids"]));
  return read_bias(body["logit_bias"], params);
}

Status read_stops(const Field& body, AnswerFields& fields) {
  const Field stop = body["stop"];
  if (stop.is_string()) {
    fields.stop.push_back(stop.value().text);
  } else {
    for (const Field& entry : INK_TRY(stop.array())) {
      if (!entry.is_string()) return entry.refuse("must be a string");
      fields.stop.push_back(entry.value().text);
    }
  }
  INK_TRY(text::validate_stop_strings(fields.stop));
  const bool keep = INK_TRY(body["include_stop_str_in_output"].boolean(false));
  const bool no_trim = INK_TRY(body["no_stop_trim"].boolean(false));
  fields.keep_stop = keep || no_trim;
  return {};
}

Status read_streaming(const Field& body, AnswerFields& fields) {
  fields.stream = INK_TRY(body["stream"].boolean(false));
  const Field options = body["stream_options"];
  if (!options.present()) return {};
  INK_TRY(options.require_object());
  fields.include_usage = INK_TRY(options["include_usage"].boolean(false));
  fields.continuous_usage = INK_TRY(options["continuous_usage_stats"].boolean(false));
  return {};
}

}  // namespace

Result<double> read_number(const Field& field, double fallback) {
  if (!field.present()) return fallback;
  if (!is_number(field)) return field.refuse("must be a number");
  return field.value().number;
}

Result<std::int64_t> read_integer(const Field& field, std::int64_t fallback) {
  if (!field.present()) return fallback;
  if (!is_number(field)) return field.refuse("must be an integer");
  const double value = field.value().number;
  if (std::trunc(value) != value) return field.refuse("must be an integer");
  if (std::abs(value) > kMaxExactInteger) return field.refuse("is out of range");
  return static_cast<std::int64_t>(value);
}

Result<std::int64_t> read_integer_in(const Field& field, std::int64_t fallback, std::int64_t low,
                                     std::int64_t high) {
  const std::int64_t value = INK_TRY(read_integer(field, fallback));
  if (field.present() && (value < low || value > high))
    return field.refuse(fmt::format("is {}, must be from {} to {}", value, low, high));
  return value;
}

Result<std::vector<std::int32_t>> read_ids(const Field& field) {
  std::vector<std::int32_t> ids;
  for (const Field& entry : INK_TRY(field.array())) {
    if (!entry.present()) return entry.refuse("must be a token id");
    ids.push_back(static_cast<std::int32_t>(
        INK_TRY(read_integer_in(entry, 0, 0, std::numeric_limits<std::int32_t>::max()))));
  }
  return ids;
}

Result<AnswerFields> read_answer_fields(const Field& body) {
  AnswerFields fields;
  INK_TRY(read_sampling(body, fields.sampling));
  INK_TRY(read_stops(body, fields));
  INK_TRY(read_streaming(body, fields));
  fields.choices = INK_TRY(read_integer_in(body["n"], 1, 1, kMaxChoices));
  fields.salt = INK_TRY(body["cache_salt"].string());
  constexpr std::int64_t kMaxPriority = 1'000'000;
  fields.priority =
      static_cast<std::int32_t>(INK_TRY(read_integer_in(body["priority"], 0, -kMaxPriority, kMaxPriority)));
  return fields;
}

std::vector<std::string> unknown_members(const Field& body,
                                         std::span<const std::span<const std::string_view>> known) {
  std::vector<std::string> unknown;
  for (const chat::JsonMember& member : body.value().members) {
    const auto lists = [&](std::span<const std::string_view> names) {
      return std::ranges::find(names, member.key) != names.end();
    };
    if (!std::ranges::any_of(known, lists)) unknown.push_back(member.key);
  }
  return unknown;
}

std::span<const std::string_view> answer_field_names() { return kNames; }

}  // namespace inkstone::server
