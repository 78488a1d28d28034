// SPDX-License-Identifier: Apache-2.0
#include "server/wire/api_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "server/wire/json_writer.h"
#include "text/utf8.h"

namespace inkstone::server {
namespace {

// Fields whose errors come without a colon (sampling::validate).
constexpr std::array<std::string_view, 14> kSamplingFields = {"temperature",
                                                              "top_k",
                                                              "top_p",
                                                              "min_p",
                                                              "repetition_penalty",
                                                              "presence_penalty",
                                                              "frequency_penalty",
                                                              "logit_bias",
                                                              "max_tokens",
                                                              "min_tokens",
                                                              "stop_token_ids",
                                                              "logprobs",
                                                              "stop",
                                                              "seed"};

bool is_path_byte(char byte) {
  return std::isalnum(static_cast<unsigned char>(byte)) != 0 ||
         std::string_view("_.-[]$'").find(byte) != std::string_view::npos;
}

std::string field_of(std::string_view message) {
  const auto* end = std::ranges::find_if_not(message, is_path_byte);
  const std::string_view word(message.begin(), end);
  if (word.empty() || word == "request" || end == message.end()) return "";
  if (*end == ':' || std::ranges::find(kSamplingFields, word) != kSamplingFields.end())
    return std::string(word);
  return "";
}

int status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kUnsupported:
    case ErrorKind::kTooLarge:
      return 400;
    case ErrorKind::kNotFound:
      return 404;
    case ErrorKind::kUnavailable:
      return 503;
    case ErrorKind::kCorrupt:
    case ErrorKind::kIo:
    case ErrorKind::kFailed:
      break;
  }
  return 500;
}

std::string_view openai_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

void write_optional(JsonWriter& json, std::string_view key, std::string_view value) {
  json.key(key);
  if (value.empty()) {
    json.null();
  } else {
    json.string(value);
  }
}

HttpResponse with_retry(HttpResponse response) {
  if (response.status == 429 || response.status == 503) response.headers.emplace_back("retry-after", "1");
  return response;
}

// Skips a JSON string that begins at `begin`; gives the position behind it.
std::size_t end_of_string(std::string_view text, std::size_t begin) {
  std::size_t at = begin + 1;
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return std::min(at + 1, text.size());
}

bool is_unspeakable(std::string_view word) {
  if (word == "NaN" || word == "Infinity" || word == "-Infinity" || word == "+Infinity") return true;
  const std::string number(word);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  return std::isdigit(static_cast<unsigned char>(number.back())) != 0 && *end == '\0' && std::isinf(value);
}

}  // namespace

ApiError to_api_error(const Error& error) {
  return {status_of(error.kind), text::replace_invalid_utf8(error.message), field_of(error.message), ""};
}

std::string openai_error_json(const ApiError& error) {
  std::string out;
  JsonWriter json(out);
  json.open_object().key("error").open_object().key("message").string(error.message);
  json.key("type").string(openai_type(error.status));
  write_optional(json, "param", error.param);
  write_optional(json, "code", error.code);
  json.close_object().close_object();
  return out;
}

std::string anthropic_error_json(const ApiError& error) {
  std::string out;
  JsonWriter json(out);
  json.open_object().key("type").string("error").key("error").open_object();
  json.key("type").string(anthropic_type(error.status)).key("message").string(error.message);
  json.close_object().close_object();
  return out;
}

HttpResponse openai_error(const ApiError& error) {
  return with_retry({error.status, "application/json", openai_error_json(error)});
}

HttpResponse anthropic_error(const ApiError& error) {
  return with_retry({error.status, "application/json", anthropic_error_json(error)});
}

std::string unspeakable_number(std::string_view body) {
  std::string_view last_string;
  std::string_view key;
  for (std::size_t at = 0; at < body.size();) {
    const char byte = body[at];
    if (byte == '"') {
      const std::size_t end = end_of_string(body, at);
      last_string = body.substr(at + 1, end - at - (end > at + 1 ? 2 : 1));
      at = end;
    } else if (byte == ':') {
      key = last_string;
      ++at;
    } else if (std::isalnum(static_cast<unsigned char>(byte)) != 0 || byte == '-' || byte == '+') {
      const std::size_t begin = at;
      while (at < body.size() && (is_path_byte(body[at]) || body[at] == '+') && body[at] != ']' &&
             body[at] != '[')
        ++at;
      if (is_unspeakable(body.substr(begin, at - begin))) return text::replace_invalid_utf8(key);
    } else {
      ++at;
    }
  }
  return "";
}

}  // namespace inkstone::server
