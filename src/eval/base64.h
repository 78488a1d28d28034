// SPDX-License-Identifier: Apache-2.0
// eval/base64.h - bytes as text.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace inkstone::eval {

std::string encode_base64(std::string_view bytes);
// The standard alphabet, padded or not. kInvalidArgument.
Result<std::string> decode_base64(std::string_view text);

}  // namespace inkstone::eval
