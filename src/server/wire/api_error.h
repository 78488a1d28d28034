// SPDX-License-Identifier: Apache-2.0
// server/wire/api_error.h - errors as clients get them: OpenAI's form, which names the field at fault, and
// Anthropic's.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/http_message.h"

namespace inkstone::server {

struct ApiError {
  int status = 500;
  std::string message;
  std::string param;  // the field at fault, or empty: null
  std::string code;   // empty: null
};

// The field is taken from the message: "path: what", or "name is ..." of sampling::validate.
ApiError to_api_error(const Error& error);

std::string openai_error_json(const ApiError& error);
std::string anthropic_error_json(const ApiError& error);

HttpResponse openai_error(const ApiError& error);
HttpResponse anthropic_error(const ApiError& error);

// For a body that is no JSON: names the member whose value is NaN, an infinity or a number beyond all
// doubles, which JSON cannot spell but clients send; else empty.
std::string unspeakable_number(std::string_view body);

}  // namespace inkstone::server
